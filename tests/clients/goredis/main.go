// go-redis as applications use it: goredis HOST PORT use|verify, goredis cluster HOST:PORT,… SECONDS,
// goredis replicas HOST:PORT,…, goredis past HOST:PORT,…, goredis tls HOST:PORT,… CA OTHER_CA
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	big    = bytes.Repeat([]byte("0123456789abcdef"), 10<<16)
	failed = false
)

// check runs one test and prints how it went.
func check(name string, test func() error) {
	if err := test(); err != nil {
		failed = true
		fmt.Printf("FAIL go-redis %s: %.300s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Printf("ok go-redis %s\n", name)
}

// same says how two values differ.
func same[T comparable](what string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s: want %v, got %v", what, want, got)
	}
	return nil
}

// refused says if an error is not the one that was expected.
func refused(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("want an error with %q, got %v", text, err)
	}
	return nil
}

func use(name string, r, other *redis.Client) {
	key := func(text string) string { return "go:" + name + ":" + text }
	check(name+" set and get", func() error {
		_, missing := r.Get(ctx, key("none")).Result()
		set := r.Set(ctx, key("a"), "x", 0)
		nx := r.SetNX(ctx, key("a"), "y", 0)
		old := r.SetArgs(ctx, key("a"), "z", redis.SetArgs{Get: true})
		if !errors.Is(missing, redis.Nil) {
			return fmt.Errorf("missing key: %v", missing)
		}
		return errors.Join(set.Err(), nx.Err(), same("NX", false, nx.Val()),
			same("old", "x", old.Val()), same("get", "z", r.Get(ctx, key("a")).Val()),
			same("incr", 5, r.IncrBy(ctx, key("n"), 5).Val()),
			same("del", 1, r.Del(ctx, key("a"), key("none")).Val()))
	})
	check(name+" pipeline", func() error {
		replies, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range 2000 {
				p.Set(ctx, key(fmt.Sprint("p", i)), i, 0)
				p.Get(ctx, key(fmt.Sprint("p", i)))
			}
			return nil
		})
		if err != nil {
			return err
		}
		return same("last", "1999", replies[3999].(*redis.StringCmd).Val())
	})
	check(name+" transaction", func() error {
		a, b := key("{t}a"), key("{t}b")
		replies, err := r.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, a, 1, 0)
			p.Incr(ctx, a)
			p.MSet(ctx, b, "x")
			p.Del(ctx, b, key("{t}none"))
			return nil
		})
		if err != nil {
			return err
		}
		apart, err := r.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for i := range 20 {
				p.IncrBy(ctx, key(fmt.Sprint("apart", i)), int64(i))
			}
			for i := range 20 {
				p.Del(ctx, key(fmt.Sprint("apart", i)))
			}
			return nil
		})
		if err != nil {
			return err
		}
		return errors.Join(same("incr", 2, replies[1].(*redis.IntCmd).Val()),
			same("del", 1, replies[3].(*redis.IntCmd).Val()),
			same("the last of those apart", 19, apart[19].(*redis.IntCmd).Val()))
	})
	check(name+" watch", func() error {
		count := key("{w}count")
		add := func(tx *redis.Tx) error {
			seen, err := tx.Get(ctx, count).Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, count, seen+1, 0)
				return nil
			})
			return err
		}
		var all sync.WaitGroup
		wrong := make(chan error, 10)
		for range 10 {
			all.Add(1)
			go func() {
				defer all.Done()
				for done := 0; done < 20; {
					err := r.Watch(ctx, add, count)
					if err == nil {
						done++
					} else if !errors.Is(err, redis.TxFailedErr) {
						wrong <- err
						return
					}
				}
			}()
		}
		all.Wait()
		close(wrong)
		return errors.Join(<-wrong, same("count", "200", r.Get(ctx, count).Val()))
	})
	check(name+" many goroutines", func() error {
		var all sync.WaitGroup
		for range 50 {
			all.Add(1)
			go func() {
				defer all.Done()
				for range 40 {
					r.Incr(ctx, key("count"))
				}
			}()
		}
		all.Wait()
		return same("count", "2000", r.Get(ctx, key("count")).Val())
	})
	check(name+" expire", func() error {
		r.Set(ctx, key("soon"), "x", 60*time.Millisecond)
		r.Set(ctx, key("later"), "x", 5000*time.Second)
		time.Sleep(150 * time.Millisecond)
		ttl := r.TTL(ctx, key("later")).Val()
		if ttl < 4990*time.Second || ttl > 5000*time.Second {
			return fmt.Errorf("ttl %v", ttl)
		}
		return same("expired", 0, r.Exists(ctx, key("soon")).Val())
	})
	check(name+" scan", func() error {
		for i := range 300 {
			r.Set(ctx, key(fmt.Sprint("scan", i)), i, 0)
		}
		return same("keys", 300, scan(r, key("scan*")))
	})
	check(name+" keyspaces", func() error {
		return errors.Join(r.Set(ctx, key("here"), "zero", 0).Err(),
			other.Set(ctx, key("here"), "seven", 0).Err(),
			same("zero", "zero", r.Get(ctx, key("here")).Val()),
			same("seven", "seven", other.Get(ctx, key("here")).Val()))
	})
	check(name+" binary", func() error {
		value := make([]byte, 256)
		for i := range value {
			value[i] = byte(i)
		}
		return errors.Join(r.Set(ctx, string(value), value, 0).Err(),
			same("value", string(value), r.Get(ctx, string(value)).Val()))
	})
	check(name+" 10 MiB", func() error {
		if err := r.Set(ctx, key("big"), big, 0).Err(); err != nil {
			return err
		}
		got, err := r.Get(ctx, key("big")).Bytes()
		return errors.Join(err, same("equal", true, bytes.Equal(big, got)))
	})
	check(name+" errors", func() error {
		r.Set(ctx, key("text"), "abc", 0)
		return errors.Join(refused(r.Incr(ctx, key("text")).Err(), "value is not an integer"),
			refused(r.Do(ctx, "NOSUCH", "x").Err(), "unknown command 'NOSUCH'"),
			refused(r.Do(ctx, "GET").Err(), "wrong number of arguments"))
	})
	check(name+" kept", func() error {
		return errors.Join(r.Set(ctx, key("kept"), "kept", 0).Err(),
			r.Set(ctx, key("expiring"), "x", 100000*time.Second).Err())
	})
}

func verify(name string, r, other *redis.Client) {
	key := "go:" + name + ":"
	check(name+" kept over a restart", func() error {
		got, err := r.Get(ctx, key+"big").Bytes()
		ttl := r.TTL(ctx, key+"expiring").Val()
		return errors.Join(err, same("big", true, bytes.Equal(big, got)),
			same("expiry", true, ttl > 99000*time.Second),
			same("kept", "kept", r.Get(ctx, key+"kept").Val()),
			same("keyspace 7", "seven", other.Get(ctx, key+"here").Val()),
			same("scan", 300, scan(r, key+"scan*")),
			same("count", "2000", r.Get(ctx, key+"count").Val()))
	})
}

// scan counts the different keys that a whole SCAN finds.
func scan(r *redis.Client, match string) int {
	found := map[string]bool{}
	for keys := r.Scan(ctx, 0, match, 50).Iterator(); keys.Next(ctx); {
		found[keys.Val()] = true
	}
	return len(found)
}

func main() {
	if os.Args[1] == "cluster" {
		addresses, seconds := clusterArguments()
		clusterMain(addresses, seconds)
		if failed {
			os.Exit(1)
		}
		return
	}
	if os.Args[1] == "replicas" {
		replicasMain(strings.Split(os.Args[2], ","))
		if failed {
			os.Exit(1)
		}
		return
	}
	if os.Args[1] == "tls" {
		tlsMain(strings.Split(os.Args[2], ","), os.Args[3], os.Args[4])
		if failed {
			os.Exit(1)
		}
		return
	}
	if os.Args[1] == "past" {
		past(os.Args[2])
		if failed {
			os.Exit(1)
		}
		return
	}
	address, phase := os.Args[1]+":"+os.Args[2], os.Args[3]
	for _, mode := range []struct {
		name     string
		protocol int
	}{{"default", 0}, {"resp2", 2}, {"resp3", 3}} {
		client := func(db int) *redis.Client {
			return redis.NewClient(&redis.Options{Addr: address, DB: db, Protocol: mode.protocol})
		}
		if phase == "use" {
			use(mode.name, client(0), client(7))
		} else {
			verify(mode.name, client(0), client(7))
		}
	}
	if failed {
		os.Exit(1)
	}
}
