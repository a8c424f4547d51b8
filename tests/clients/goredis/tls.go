package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// trusting is a configuration that trusts the authority in a file.
func trusting(file string) *tls.Config {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: roots}
}

// tlsMain tries a lone client and a cluster client by TLS.
func tlsMain(addresses []string, ca, otherCA string) {
	check("tls alone", func() error {
		r := redis.NewClient(&redis.Options{Addr: addresses[0], TLSConfig: trusting(ca)})
		defer r.Close()
		long := bytes.Repeat([]byte("x"), 300_000)
		echo := r.Echo(ctx, string(long))
		return errors.Join(r.Ping(ctx).Err(), echo.Err(), same("length", len(long), len(echo.Val())))
	})
	check("tls cluster", func() error {
		r := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, TLSConfig: trusting(ca)})
		defer r.Close()
		for i := range 100 {
			if err := r.Set(ctx, fmt.Sprintf("go:%d", i), i, 0).Err(); err != nil {
				return err
			}
		}
		for i := range 100 {
			got, err := r.Get(ctx, fmt.Sprintf("go:%d", i)).Int()
			if err := errors.Join(err, same("value", i, got)); err != nil {
				return err
			}
		}
		return nil
	})
	check("tls others are refused", func() error {
		for _, config := range []*tls.Config{trusting(otherCA), nil} {
			r := redis.NewClient(&redis.Options{Addr: addresses[0], TLSConfig: config,
				MaxRetries: -1, DialTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second})
			if err := r.Ping(ctx).Err(); err == nil {
				return errors.New("it was not refused")
			}
			r.Close()
		}
		return nil
	})
}
