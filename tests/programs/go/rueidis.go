package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	cachedKeys = 20
	cacheTTL   = time.Minute
	// Links are healthy; generous, as machines of tests are busy.
	healthyStale = time.Second
	// A node is dead, and its lease of a second runs out.
	staleMax = 3 * time.Second
)

// versions knows when each version of a key was acknowledged. One writer a key: values only grow.
type versions struct {
	sync.Mutex
	at []time.Time
}

func (v *versions) last() int64 {
	v.Lock()
	defer v.Unlock()
	return int64(len(v.at))
}

func (v *versions) acknowledge() {
	v.Lock()
	defer v.Unlock()
	v.at = append(v.at, time.Now())
}

// staleness is for how long what was seen had been replaced when the read began.
func (v *versions) staleness(seen int64, began time.Time) time.Duration {
	v.Lock()
	defer v.Unlock()
	if seen >= int64(len(v.at)) {
		return 0
	}
	return began.Sub(v.at[seen])
}

// useRueidis: its client-side cache is on by default. What is cached is never stale for long,
// whichever node a write goes through, and never for ever.
func useRueidis() {
	clients := make([]rueidis.Client, len(nodes))
	for number, address := range nodes {
		one, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{address}, ForceSingleClient: true, DisableRetry: true,
		})
		if err != nil {
			panic(err)
		}
		defer one.Close()
		clients[number] = one
	}
	check("rueidis: a cached value, invalidated by another node", func() error {
		for number := range clients {
			if err := invalidated(clients, number); err != nil {
				return err
			}
		}
		return nil
	})
	var written [cachedKeys]versions
	var unanswered, stalest, reads, hits atomic.Int64
	check("rueidis: load over a kill -9", func() error {
		return load(2*len(nodes), func(number int, end time.Time) error {
			one := clients[number%len(nodes)]
			for time.Now().Before(end) {
				key := rand.IntN(cachedKeys)
				var err error
				if number < len(nodes) {
					// One writer per key, so that values only grow.
					key = key - key%len(nodes) + number
					if key < cachedKeys {
						err = write(one, key, &written[key])
					}
					time.Sleep(5 * time.Millisecond)
				} else {
					var seen int64
					var hit bool
					began := time.Now()
					if seen, hit, err = cached(one, key); err == nil {
						reads.Add(1)
						if hit {
							hits.Add(1)
						}
						late := int64(written[key].staleness(seen, began))
						for old := stalest.Load(); late > old; old = stalest.Load() {
							stalest.CompareAndSwap(old, late)
						}
					}
					time.Sleep(time.Millisecond)
				}
				if err != nil && !passing(err) && !errors.Is(err, rueidis.ErrClosing) {
					return err
				} else if err != nil {
					unanswered.Add(1)
					time.Sleep(50 * time.Millisecond)
				}
			}
			return nil
		})
	})
	longest := time.Duration(stalest.Load())
	fmt.Printf("note: %d reads, %d from the cache, %d requests without an answer, stale by %s at most\n",
		reads.Load(), hits.Load(), unanswered.Load(), longest)
	check("rueidis: bounded staleness", func() error {
		if longest > staleMax || hits.Load() == 0 {
			return fmt.Errorf("%s, %d from the cache", longest, hits.Load())
		}
		return nil
	})
	check("rueidis: nothing stays stale", func() error {
		for number, one := range clients {
			for key := range cachedKeys {
				what := fmt.Sprintf("ru:%d through node %d", key, number+1)
				err := untilWorks(what, func() (bool, error) {
					seen, _, err := cached(one, key)
					return seen >= written[key].last(), err
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// write counts a key up, and remembers what was acknowledged.
func write(one rueidis.Client, key int, last *versions) error {
	next := last.last() + 1
	set := one.B().Set().Key(name(key)).Value(strconv.FormatInt(next, 10)).Build()
	err := one.Do(ctx, set).Error()
	if err == nil {
		last.acknowledge()
	}
	return err
}

// cached reads a key, and says whether it came from the cache.
func cached(one rueidis.Client, key int) (int64, bool, error) {
	reply := one.DoCache(ctx, one.B().Get().Key(name(key)).Cache(), cacheTTL)
	seen, err := reply.AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, reply.IsCacheHit(), nil
	}
	return seen, reply.IsCacheHit(), err
}

func name(key int) string { return "ru:" + strconv.Itoa(key) }

// invalidated caches a value at one node, and changes it through another.
func invalidated(clients []rueidis.Client, number int) error {
	reader, writer := clients[number], clients[(number+1)%len(clients)]
	read := func() rueidis.RedisResult {
		return reader.DoCache(ctx, reader.B().Get().Key("ru:calm").Cache(), cacheTTL)
	}
	set := func(value string) error {
		return writer.Do(ctx, writer.B().Set().Key("ru:calm").Value(value).Build()).Error()
	}
	before, after := fmt.Sprintf("a%d", number), fmt.Sprintf("b%d", number)
	if err := set(before); err != nil {
		return err
	}
	is := func(value string) func() (bool, error) {
		return func() (bool, error) {
			seen, err := read().ToString()
			return seen == value, err
		}
	}
	if err := untilWorks("the first read", is(before)); err != nil {
		return err
	}
	if !read().IsCacheHit() {
		return errors.New("the second read was not from the cache")
	}
	began := time.Now()
	if err := set(after); err != nil {
		return err
	}
	if err := untilWorks("the new value", is(after)); err != nil {
		return err
	}
	if took := time.Since(began); took > healthyStale {
		return fmt.Errorf("stale for %s", took)
	}
	return nil
}
