// Programs of Go: `go PROGRAM HOST:PORT,… SECONDS any|cluster`. shared.py says what they print.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	recovery = 20 * time.Second
	workers  = 6
	round    = 500 * time.Millisecond
)

var (
	nodes    []string
	duration time.Duration
	mode     string
	failed   bool
	ctx      = context.Background()
	programs = map[string]func(){"redis_rate": useRedisRate, "redsync": useRedsync, "rueidis": useRueidis}
)

func main() {
	if len(os.Args) != 5 || programs[os.Args[1]] == nil {
		fmt.Println("usage: go redis_rate|redsync|rueidis HOST:PORT,… SECONDS any|cluster")
		os.Exit(2)
	}
	// Nodes die here; it would write a line for each attempt.
	logging.Disable()
	nodes, mode = strings.Split(os.Args[2], ","), os.Args[4]
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		panic(err)
	}
	duration = time.Duration(seconds * float64(time.Second))
	programs[os.Args[1]]()
	if failed {
		os.Exit(1)
	}
}

// client is a client through a node that sends nothing twice; in mode cluster the cluster client.
func client(number, db int) redis.UniversalClient {
	if mode == "cluster" {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes})
	}
	return redis.NewClient(&redis.Options{
		Addr: nodes[number%len(nodes)], DB: db, MaxRetries: -1, ReadTimeout: 5 * time.Second,
	})
}

// passing says whether a node may answer so while another is dead.
func passing(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	for _, word := range []string{"UNKNOWN", "TRYAGAIN", "BUSY", "LOADING", "CLUSTERDOWN"} {
		if strings.HasPrefix(err.Error(), word+" ") {
			return true
		}
	}
	return strings.Contains(err.Error(), "connection re") || strings.Contains(err.Error(), "broken pipe")
}

func check(name string, test func() error) {
	if err := test(); err != nil {
		failed = true
		fmt.Printf("FAIL %s: %.300q\n", name, err.Error())
		return
	}
	fmt.Printf("ok %s\n", name)
}

// load runs the workers until its end; the first error of any.
func load(count int, worker func(number int, end time.Time) error) error {
	fmt.Println("loading")
	end := time.Now().Add(duration)
	errs := make([]error, count)
	var all sync.WaitGroup
	for number := range count {
		all.Go(func() { errs[number] = worker(number, end) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// untilWorks tries until the attempt holds, as it must soon after the kill.
func untilWorks(what string, attempt func() (bool, error)) error {
	deadline := time.Now().Add(recovery)
	for {
		done, err := attempt()
		if done && err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s not within %s: %v", what, recovery, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// admitted counts by round of what a rate limiter said.
type admitted struct {
	sync.Mutex
	limit  int
	began  time.Time
	counts map[string]*[3]int
}

func (a *admitted) name() string {
	return strconv.Itoa(int(time.Since(a.began) / round))
}

// count adds one of a kind: 0 admitted, 1 refused, 2 without an answer.
func (a *admitted) count(name string, kind int) {
	a.Lock()
	defer a.Unlock()
	if a.counts[name] == nil {
		a.counts[name] = new([3]int)
	}
	a.counts[name][kind]++
}

// judge fails if there were more than the limit, or fewer but by attempts without an answer.
func (a *admitted) judge() error {
	var sums [3]int
	for name, counts := range a.counts {
		for kind, count := range counts {
			sums[kind] += count
		}
		if counts[0] > a.limit {
			return fmt.Errorf("%d of %d admitted in round %s", counts[0], a.limit, name)
		}
		if mode == "any" && counts[1] > 0 && counts[0]+counts[2] < a.limit {
			return fmt.Errorf("round %s: %d admitted, %d refused, %d unanswered",
				name, counts[0], counts[1], counts[2])
		}
	}
	fmt.Printf("note: %d rounds, %d admitted, %d refused, %d without an answer\n",
		len(a.counts), sums[0], sums[1], sums[2])
	if len(a.counts) < int(duration/round)/2 || sums[0] == 0 || sums[1] == 0 {
		return fmt.Errorf("too few: %v", sums)
	}
	return nil
}
