package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// What the client retries by itself, until its attempts are used up.
var passing = regexp.MustCompile("connection refused|connection reset|EOF|broken pipe|i/o timeout|" +
	"CLUSTERDOWN|TRYAGAIN|MOVED|cannot load cluster slots|use of closed|deadline exceeded")

// clusterMain is go-redis's cluster client against mode cluster: goredis cluster HOST:PORT,… SECONDS
//
// It tries everything, prints `loading`, writes for so many seconds (meanwhile a node is killed),
// prints `loaded`, waits for a line, and looks whether every acknowledged write is there.
func clusterMain(addresses []string, seconds float64) {
	redis.SetLogger(silence{})
	open := func(readOnly bool) *redis.ClusterClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ReadOnly: readOnly,
			MaxRedirects: 16, MinRetryBackoff: 20 * time.Millisecond, MaxRetryBackoff: 500 * time.Millisecond})
	}
	r := open(false)
	useCluster(r, open)
	written := &writes{keys: map[string]string{}, counts: map[string]int{}, errors: map[string]int{}}
	fmt.Println("loading")
	check("cluster load over a kill -9", func() error { return written.load(r, seconds) })
	fmt.Println("loaded")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	check("cluster nothing acknowledged is lost", func() error { return written.verify(r) })
}

// silence is a logger for a client that is about to lose a node, and would tell of every attempt.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func useCluster(r *redis.ClusterClient, open func(bool) *redis.ClusterClient) {
	check("cluster keys", func() error {
		for i := range 300 {
			if err := r.Set(ctx, fmt.Sprint("gc:", i), i, 0).Err(); err != nil {
				return err
			}
		}
		for i := range 300 {
			if err := same("get", strconv.Itoa(i), r.Get(ctx, fmt.Sprint("gc:", i)).Val()); err != nil {
				return err
			}
		}
		set := r.MSet(ctx, "gc:{t}1", 1, "gc:{t}2", 2)
		got := r.MGet(ctx, "gc:{t}1", "gc:{t}2").Val()
		return errors.Join(set.Err(), same("mget", "[1 2]", fmt.Sprint(got)),
			same("incr", 1, r.Incr(ctx, "gc:n").Val()), same("del", 1, r.Del(ctx, "gc:0").Val()))
	})
	check("cluster pipeline", func() error {
		replies, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range 1000 {
				p.Set(ctx, fmt.Sprint("gp:", i), i, 0)
				p.Get(ctx, fmt.Sprint("gp:", i))
			}
			return nil
		})
		if err != nil {
			return err
		}
		return same("last", "999", replies[1999].(*redis.StringCmd).Val())
	})
	check("cluster scan at all masters", func() error {
		var all sync.Mutex
		found := map[string]bool{}
		err := r.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			for keys := node.Scan(ctx, 0, "gp:*", 100).Iterator(); keys.Next(ctx); {
				all.Lock()
				found[keys.Val()] = true
				all.Unlock()
			}
			return nil
		})
		return errors.Join(err, same("keys", 1000, len(found)))
	})
	check("cluster reads at replicas", func() error {
		near := open(true)
		defer near.Close()
		for i := range 50 {
			key := fmt.Sprint("gr:", i)
			err := near.Set(ctx, key, i, 0).Err()
			if err := errors.Join(err, same("get", strconv.Itoa(i), near.Get(ctx, key).Val())); err != nil {
				return err
			}
		}
		return nil
	})
}

// writes is what was acknowledged.
type writes struct {
	sync.Mutex
	keys    map[string]string
	counts  map[string]int
	errors  map[string]int
	longest time.Duration
}

func (w *writes) load(r *redis.ClusterClient, seconds float64) error {
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	failures := make([]error, 4)
	var all sync.WaitGroup
	for worker := range failures {
		all.Add(1)
		go func() {
			defer all.Done()
			last := time.Now()
			for i := 0; time.Now().Before(end) && failures[worker] == nil; i++ {
				err := w.write(r, worker, i)
				switch {
				case err == nil:
					w.Lock()
					w.longest = max(w.longest, time.Since(last))
					w.Unlock()
					last = time.Now()
				case passing.MatchString(err.Error()):
					w.Lock()
					w.errors[passing.FindString(err.Error())]++
					w.Unlock()
				default:
					failures[worker] = err
				}
			}
		}()
	}
	all.Wait()
	fmt.Printf("note: %d keys, longest pause %v, errors %v\n", len(w.keys), w.longest, w.errors)
	return errors.Join(failures...)
}

func (w *writes) write(r *redis.ClusterClient, worker, i int) error {
	key, value := fmt.Sprintf("gl:%d:%d", worker, i), strconv.Itoa(i)
	if err := r.Set(ctx, key, value, 0).Err(); err != nil {
		return err
	}
	counter := fmt.Sprint("gl:count", i%9)
	if err := r.Incr(ctx, counter).Err(); err != nil {
		return err
	}
	w.Lock()
	w.keys[key] = value
	w.counts[counter]++
	w.Unlock()
	replies, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for each := range 16 {
			p.Set(ctx, fmt.Sprintf("gl:%d:%d:%d", worker, i, each), value, 0)
		}
		return nil
	})
	w.Lock()
	defer w.Unlock()
	for each, reply := range replies {
		if reply.Err() == nil {
			w.keys[fmt.Sprintf("gl:%d:%d:%d", worker, i, each)] = value
		}
	}
	return err
}

func (w *writes) verify(r *redis.ClusterClient) error {
	if len(w.keys) < 100 {
		return fmt.Errorf("only %d keys", len(w.keys))
	}
	keys := make([]string, 0, len(w.keys))
	for key := range w.keys {
		keys = append(keys, key)
	}
	for len(keys) > 0 {
		some := keys[:min(500, len(keys))]
		keys = keys[len(some):]
		replies, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range some {
				p.Get(ctx, key)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for at, key := range some {
			if err := same(key, w.keys[key], replies[at].(*redis.StringCmd).Val()); err != nil {
				return err
			}
		}
	}
	// A client that retries what it had no answer to may count twice, but never less.
	for counter, count := range w.counts {
		got, err := r.Get(ctx, counter).Int()
		if err != nil || got < count {
			return fmt.Errorf("%s: %d, acknowledged %d (%v)", counter, got, count, err)
		}
	}
	return nil
}

func clusterArguments() ([]string, float64) {
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		panic(err)
	}
	return strings.Split(os.Args[2], ","), seconds
}
