// Drives etcd as redis-benchmark drives Redis: so many clients, each with one call outstanding,
// random keys, values of a fixed size. Prints one line of CSV in redis-benchmark's columns.
//
// Reads are etcd's linearizable ones, writes its puts. Each client asks one endpoint: client n the
// n-th, counted around. -conns says over how many connections the clients are spread; what suits
// etcd best is for the caller to find out.
//
// With -t transfers and the two beside it it does what transfers.go says.
//
// It does not know: who leads. It shares the machine's cores with what it measures, as
// redis-benchmark does; what a call costs here is part of the figure.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const callTimeout = 10 * time.Second

func main() {
	endpoints := flag.String("endpoints", "", "host:port,… of the members to ask")
	test := flag.String("t", "get", "get, set, transfers, accounts or sum")
	clients := flag.Int("c", 64, "clients, each with one call outstanding")
	conns := flag.Int("conns", 64, "connections they share")
	requests := flag.Int64("n", 10000, "calls in all")
	keys := flag.Int("r", 100000, "random keys are drawn from so many")
	bytes := flag.Int("d", 100, "bytes of a value")
	fill := flag.Bool("fill", false, "put every key once, in order, instead")
	lasting := flag.Duration("for", 5*time.Second, "how long transfers go on")
	flag.Parse()
	if *fill {
		*test, *requests = "set", int64(*keys)
	}
	list := strings.Split(*endpoints, ",")
	tests := []string{"get", "set", "transfers", "accounts", "sum"}
	if *endpoints == "" || *conns < 1 || *clients < 1 || !slices.Contains(tests, *test) {
		log.Fatal("wrong flags, see -help")
	}

	pool := make([]*clientv3.Client, *conns)
	for n := range pool {
		client, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{list[n%len(list)]},
			DialTimeout: callTimeout,
		})
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		pool[n] = client
	}
	value := strings.Repeat("x", *bytes)
	var next atomic.Int64
	call := func(client *clientv3.Client, n int64) error {
		number := rand.IntN(*keys)
		if *fill {
			number = int(n)
		}
		key := fmt.Sprintf("key:%012d", number)
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		var err error
		if *test == "set" {
			_, err = client.Put(ctx, key, value)
		} else {
			_, err = client.Get(ctx, key)
		}
		return err
	}
	// Connections are made by the first call; redis-benchmark too connects before it counts.
	for _, client := range pool {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		if _, err := client.Get(ctx, "nothing"); err != nil {
			log.Fatal(err)
		}
		cancel()
	}

	switch *test {
	case "transfers":
		transfers(pool, *clients, *keys, *lasting)
		return
	case "accounts":
		fillAccounts(pool, *keys)
		return
	case "sum":
		sumAccounts(pool[0])
		return
	}

	taken := make([][]time.Duration, *clients)
	var group sync.WaitGroup
	began := time.Now()
	for c := range *clients {
		group.Go(func() {
			client := pool[c%len(pool)]
			for n := next.Add(1) - 1; n < *requests; n = next.Add(1) - 1 {
				start := time.Now()
				if err := call(client, n); err != nil {
					log.Fatal(err)
				}
				taken[c] = append(taken[c], time.Since(start))
			}
		})
	}
	group.Wait()
	seconds := time.Since(began).Seconds()

	ms := parts(taken)
	fmt.Println(`"test","rps","p50_latency_ms","p99_latency_ms"`)
	fmt.Printf("\"%s\",\"%.2f\",\"%.3f\",\"%.3f\"\n",
		strings.ToUpper(*test), float64(*requests)/seconds, ms(0.5), ms(0.99))
}

// What so large a part of all does not exceed, in milliseconds.
func parts(taken [][]time.Duration) func(float64) float64 {
	all := slices.Concat(taken...)
	slices.Sort(all)
	return func(part float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return float64(all[int(part*float64(len(all)-1))].Microseconds()) / 1000
	}
}
