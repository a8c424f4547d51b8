package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// past looks at a past time through each node.
func past(addresses string) {
	nodes := strings.Split(addresses, ",")
	key := "past:go"
	writer := redis.NewClient(&redis.Options{Addr: nodes[0]})
	defer writer.Close()
	var at string
	check("past written", func() error {
		if err := writer.Set(ctx, key, "before", 0).Err(); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
		// By the node's clock: where this machine's clock is set while nodes run, they do not follow it.
		now, err := writer.Time(ctx).Result()
		if err != nil {
			return err
		}
		at = fmt.Sprintf("%dms", now.UnixMilli())
		time.Sleep(50 * time.Millisecond)
		return writer.Set(ctx, key, "after", 0).Err()
	})
	for number, node := range nodes {
		client := redis.NewClient(&redis.Options{Addr: node})
		check(fmt.Sprintf("past CLIENT AT, node %d", number+1), func() error {
			one := client.Conn()
			defer one.Close()
			if err := one.Do(ctx, "CLIENT", "AT", at).Err(); err != nil {
				return err
			}
			value, err := one.Get(ctx, key).Result()
			if err != nil {
				return err
			}
			if err := same("GET", "before", value); err != nil {
				return err
			}
			if err := refused(one.Set(ctx, key, "never", 0).Err(), "SET cannot run at a past time"); err != nil {
				return err
			}
			// The connection goes back to its pool.
			return one.Do(ctx, "CLIENT", "AT", "OFF").Err()
		})
		check(fmt.Sprintf("past MULTI with AT, node %d", number+1), func() error {
			var value *redis.StringCmd
			_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Do(ctx, "AT", at)
				value = pipe.Get(ctx, key)
				return nil
			})
			if err != nil {
				return err
			}
			if err := same("GET", "before", value.Val()); err != nil {
				return err
			}
			now, err := client.Get(ctx, key).Result()
			if err != nil {
				return err
			}
			return same("GET now", "after", now)
		})
		client.Close()
	}
}
