//go:build tools

// Package exporter names redis_exporter, so that go.mod and go.sum have what it is built of.
package exporter

import _ "github.com/oliver006/redis_exporter"
