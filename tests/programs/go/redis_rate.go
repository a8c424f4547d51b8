package main

import (
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
)

// useRedisRate: six workers through all nodes; each round is a caller of its own.
func useRedisRate() {
	const limit = 20
	// So slow that within a round nothing but the burst is admitted.
	slow := redis_rate.Limit{Rate: 1, Period: time.Hour, Burst: limit}
	count := &admitted{limit: limit, began: time.Now(), counts: map[string]*[3]int{}}
	limiters := make([]*redis_rate.Limiter, workers)
	for number := range limiters {
		limiters[number] = redis_rate.NewLimiter(client(number, 0))
	}
	check("redis_rate: calls", func() error { return rateCalls(limiters) })
	check("redis_rate: load over a kill -9", func() error {
		return load(workers, func(number int, end time.Time) error {
			for time.Now().Before(end) {
				name := count.name()
				result, err := limiters[number].Allow(ctx, "load:"+name, slow)
				switch {
				case err != nil && !passing(err):
					return err
				case err != nil:
					count.count(name, 2)
					time.Sleep(20 * time.Millisecond)
				default:
					count.count(name, 1-result.Allowed)
				}
			}
			return nil
		})
	})
	check("redis_rate: never above the limit", count.judge)
}

// rateCalls tries each call while all nodes are there.
func rateCalls(limiters []*redis_rate.Limiter) error {
	ten := redis_rate.PerMinute(10)
	result, err := limiters[0].AllowN(ctx, "calm", ten, 4)
	if err != nil || result.Allowed != 4 || result.Remaining != 6 || result.RetryAfter != -1 {
		return fmt.Errorf("AllowN 4: %+v %v", result, err)
	}
	result, err = limiters[1].AllowN(ctx, "calm", ten, 7)
	if err != nil || result.Allowed != 0 || result.RetryAfter <= 0 {
		return fmt.Errorf("AllowN 7: %+v %v", result, err)
	}
	result, err = limiters[2].AllowAtMost(ctx, "calm", ten, 9)
	if err != nil || result.Allowed != 6 || result.Remaining != 0 {
		return fmt.Errorf("AllowAtMost 9: %+v %v", result, err)
	}
	if err := limiters[1].Reset(ctx, "calm"); err != nil {
		return err
	}
	result, err = limiters[0].Allow(ctx, "calm", ten)
	if err != nil || result.Allowed != 1 || result.Remaining != 9 {
		return fmt.Errorf("after Reset: %+v %v", result, err)
	}
	return nil
}
