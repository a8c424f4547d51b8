// Transfers between two accounts, as `bench transfers` has them.
//
// Each account is a key with a number. A transfer reads both in one request, linearizable, and puts
// both in a second one, if neither has been written since (mod_revision); else that is an abort,
// and it begins again with the same two. Sums of what all accounts hold are for the caller to judge.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	opening    = 1000  // what every account holds at first
	amountMost = 10    // of one transfer
	batch      = 128   // puts of one request: etcd's default for --max-txn-ops
	page       = 10000 // accounts of one answer
	prefix     = "account:"
)

func account(number int) string { return fmt.Sprintf("%s%012d", prefix, number) }

func within(call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return call(ctx)
}

// Puts every account once.
func fillAccounts(pool []*clientv3.Client, accounts int) {
	var next atomic.Int64
	var group sync.WaitGroup
	for _, client := range pool {
		group.Go(func() {
			for {
				first := int(next.Add(batch) - batch)
				if first >= accounts {
					return
				}
				var puts []clientv3.Op
				for n := first; n < min(first+batch, accounts); n++ {
					puts = append(puts, clientv3.OpPut(account(n), strconv.Itoa(opening)))
				}
				err := within(func(ctx context.Context) error {
					_, err := client.Txn(ctx).Then(puts...).Commit()
					return err
				})
				if err != nil {
					log.Fatal(err)
				}
			}
		})
	}
	group.Wait()
}

// Prints how many accounts there are, and what they hold together.
func sumAccounts(client *clientv3.Client) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	var count, sum int64
	for more := true; more; {
		err := within(func(ctx context.Context) error {
			got, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
			if err != nil {
				return err
			}
			for _, kv := range got.Kvs {
				held, err := strconv.ParseInt(string(kv.Value), 10, 64)
				if err != nil {
					return err
				}
				count, sum = count+1, sum+held
				from = string(kv.Key) + "\x00"
			}
			more = got.More
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(`"accounts","sum"`)
	fmt.Printf("\"%d\",\"%d\"\n", count, sum)
}

// One attempt: whether both puts were made.
func attempt(client *clientv3.Client, from, to string, amount int64) (bool, error) {
	var done bool
	err := within(func(ctx context.Context) error {
		read, err := client.Txn(ctx).Then(clientv3.OpGet(from), clientv3.OpGet(to)).Commit()
		if err != nil {
			return err
		}
		var held, seen [2]int64
		for n := range held {
			kvs := read.Responses[n].GetResponseRange().Kvs
			if len(kvs) != 1 {
				return fmt.Errorf("an account is missing")
			}
			if held[n], err = strconv.ParseInt(string(kvs[0].Value), 10, 64); err != nil {
				return err
			}
			seen[n] = kvs[0].ModRevision
		}
		said, err := client.Txn(ctx).If(
			clientv3.Compare(clientv3.ModRevision(from), "=", seen[0]),
			clientv3.Compare(clientv3.ModRevision(to), "=", seen[1]),
		).Then(
			clientv3.OpPut(from, strconv.FormatInt(held[0]-amount, 10)),
			clientv3.OpPut(to, strconv.FormatInt(held[1]+amount, 10)),
		).Commit()
		if err == nil {
			done = said.Succeeded
		}
		return err
	})
	return done, err
}

// Transfers for so long; what ends later is let end, and does not count.
func transfers(pool []*clientv3.Client, clients, accounts int, lasting time.Duration) {
	taken := make([][]time.Duration, clients)
	var aborts, failed atomic.Int64
	var group sync.WaitGroup
	until := time.Now().Add(lasting)
	for c := range clients {
		group.Go(func() {
			client := pool[c%len(pool)]
			for time.Now().Before(until) {
				from, to := rand.IntN(accounts), rand.IntN(accounts-1)
				if to >= from {
					to++
				}
				amount := 1 + rand.Int64N(amountMost)
				start := time.Now()
				for {
					done, err := attempt(client, account(from), account(to), amount)
					now := time.Now()
					if err != nil {
						failed.Add(1)
						log.Print(err)
					} else if now.After(until) {
						return
					} else if !done {
						aborts.Add(1)
						continue
					} else {
						taken[c] = append(taken[c], now.Sub(start))
					}
					break
				}
			}
		})
	}
	group.Wait()
	done := 0
	for _, each := range taken {
		done += len(each)
	}
	ms := parts(taken)
	fmt.Println(`"done","p50_ms","p99_ms","max_ms","aborts","failed"`)
	fmt.Printf("\"%d\",\"%.3f\",\"%.3f\",\"%.3f\",\"%d\",\"%d\"\n",
		done, ms(0.5), ms(0.99), ms(1), aborts.Load(), failed.Load())
}
