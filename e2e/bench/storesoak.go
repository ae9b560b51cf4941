package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sample is what a soak weighs at one moment.
type sample struct {
	Seconds   float64 `json:"seconds"`
	Rewrites  int64   `json:"rewrites"`
	Disk      float64 `json:"diskMB"`
	RSS       float64 `json:"rssMB"`
	Anonymous float64 `json:"anonymousMB"`
}

const (
	soakObjects = 2000
	soakWorkers = 16
	// longSoak is the time from which the default retention of five minutes
	// can show that it bounds anything.
	longSoak = 8 * time.Minute
)

// soak rewrites objects of 1 KB through the API as fast as it goes and weighs
// the kernel and its directory.
func soak(ctx context.Context, dir string, d time.Duration) (samples []sample, retention string, err error) {
	retention = "10s"
	if d >= longSoak {
		retention = "5m"
	}
	s, err := startKernel(ctx, dir, retention)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, s.stop(syscall.SIGTERM)) }()
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	if err := s.prepare(ctx, "soak"); err != nil {
		return nil, "", err
	}
	var rewrites atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	defer sync.OnceFunc(func() { close(done) })()
	var faults failures
	for w := range soakWorkers {
		wg.Go(func() { faults.add(s.rewrite(ctx, w, done, &rewrites)) })
	}
	begin := time.Now()
	tick := time.NewTicker(max(d/240, 250*time.Millisecond))
	defer tick.Stop()
	for time.Since(begin) < d {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
		if err := faults.all(); err != nil {
			return nil, "", err
		}
		rss, anonymous, err := s.memory()
		if err != nil {
			return nil, "", err
		}
		samples = append(samples, sample{
			Seconds: time.Since(begin).Seconds(), Rewrites: rewrites.Load(),
			Disk: mb(diskUsed(filepath.Join(dir, "d"))), RSS: mb(rss), Anonymous: mb(anonymous),
		})
	}
	return samples, retention, nil
}

// rewrite makes one worker's objects and rewrites them in turn until done.
func (s *apiServer) rewrite(ctx context.Context, worker int, done <-chan struct{}, rewrites *atomic.Int64) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("soak")
	var objects []*corev1.ConfigMap
	for i := worker; i < soakObjects; i += soakWorkers {
		made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("soak-%d", i)}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		objects = append(objects, made)
	}
	for n := 0; ; n++ {
		select {
		case <-done:
			return nil
		default:
		}
		i := n % len(objects)
		objects[i].Data = map[string]string{"text": strings.Repeat(fmt.Sprintf("%07d ", n), 100)}
		if objects[i], err = maps.Update(ctx, objects[i], metav1.UpdateOptions{}); err != nil {
			return err
		}
		rewrites.Add(1)
	}
}

// diskUsed is what the files below dir occupy, in bytes. Files that end
// meanwhile count nothing.
func diskUsed(dir string) (bytes float64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += float64(stat.Blocks) * 512
			}
		}
		return nil
	})
	return bytes
}

// growth compares the highest values of the last third with those of the
// middle one; in the first, caches and history fill up.
func growth(samples []sample, of func(sample) float64) float64 {
	third := len(samples) / 3
	highest := func(some []sample) (top float64) {
		for _, s := range some {
			top = max(top, of(s))
		}
		return top
	}
	if third == 0 {
		return 0
	}
	return highest(samples[2*third:]) / highest(samples[third:2*third])
}
