package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// replicasMain is go-redis's cluster client where nodes have listeners for replicas:
// goredis replicas HOST:PORT,…
func replicasMain(addresses []string) {
	open := func(change func(*redis.ClusterOptions)) *redis.ClusterClient {
		options := &redis.ClusterOptions{Addrs: addresses}
		change(options)
		return redis.NewClusterClient(options)
	}
	readOnly := open(func(options *redis.ClusterOptions) { options.ReadOnly = true })
	check("replicas targets", func() error {
		var masters, slaves atomic.Int32
		count := func(role string, counter *atomic.Int32) func(context.Context, *redis.Client) error {
			return func(ctx context.Context, node *redis.Client) error {
				counter.Add(1)
				info, err := node.Info(ctx, "replication").Result()
				if err == nil && !strings.Contains(info, "role:"+role) {
					err = errors.New(info)
				}
				return err
			}
		}
		return errors.Join(readOnly.ForEachMaster(ctx, count("master", &masters)),
			readOnly.ForEachSlave(ctx, count("slave", &slaves)),
			same("masters", 3, int(masters.Load())), same("slaves", 3, int(slaves.Load())))
	})
	for name, client := range map[string]*redis.ClusterClient{
		"ReadOnly":       readOnly,
		"RouteByLatency": open(func(options *redis.ClusterOptions) { options.RouteByLatency = true }),
		"RouteRandomly":  open(func(options *redis.ClusterOptions) { options.RouteRandomly = true }),
	} {
		check("replicas "+name, func() error {
			for i := range 100 {
				key := fmt.Sprint("grr:", i)
				if err := client.Set(ctx, key, i, 0).Err(); err != nil {
					return err
				}
				if err := same("get", strconv.Itoa(i), client.Get(ctx, key).Val()); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
