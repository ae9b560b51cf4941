package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// decisions is the histogram of how long decisions took.
type decisions struct {
	sum     float64 // seconds
	count   float64
	buckets []bucket
}

// bucket counts decisions of at most so many seconds.
type bucket struct{ most, count float64 }

// decisionsOf are those so far, as the server's metrics tell.
func decisionsOf(ctx context.Context, s *contender) (d decisions, err error) {
	client, err := s.httpClient()
	if err != nil {
		return d, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.Host+"/metrics", nil)
	if err != nil {
		return d, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return d, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, ok := strings.CutPrefix(lines.Text(), "scheduler_scheduling_algorithm_duration_seconds_")
		name, value, two := strings.Cut(line, " ")
		if !ok || !two {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return d, fmt.Errorf("metric %s: %w", lines.Text(), err)
		}
		switch name {
		case "sum":
			d.sum = v
		case "count":
			d.count = v
		default:
			_, le, _ := strings.Cut(name, `le="`)
			most, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64) // +Inf too
			if err != nil {
				return d, fmt.Errorf("metric %s: %w", lines.Text(), err)
			}
			d.buckets = append(d.buckets, bucket{most, v})
		}
	}
	slices.SortFunc(d.buckets, func(a, b bucket) int { return int(math.Copysign(1, a.most-b.most)) })
	return d, lines.Err()
}

func (d decisions) since(before decisions) decisions {
	d.sum, d.count, d.buckets = d.sum-before.sum, d.count-before.count, slices.Clone(d.buckets)
	for i := range d.buckets {
		if i < len(before.buckets) {
			d.buckets[i].count -= before.buckets[i].count
		}
	}
	return d
}

// mean in microseconds.
func (d decisions) mean() float64 { return d.sum / max(d.count, 1) * 1e6 }

// within is the bound, in seconds, of the bucket that holds a share of all.
func (d decisions) within(share float64) float64 {
	for _, b := range d.buckets {
		if b.count >= share*d.count {
			return b.most
		}
	}
	return math.Inf(1)
}

func (d decisions) String() string {
	return fmt.Sprintf("mean %.0f us, half within %g ms, 99%% within %g ms", d.mean(), d.within(0.5)*1000, d.within(0.99)*1000)
}
