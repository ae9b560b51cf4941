package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	watched = "watched" // the namespace that is watched
	// sentKey is the annotation with the time at which a pod was sent.
	sentKey = "sent"
	// watchConnections are shared out among the watchers of a benchmark.
	watchConnections = 10
)

// sentMark is how the annotation begins in a pod's protobuf: key and value are
// strings of 4 and 19 bytes.
var sentMark = []byte("\x0a\x04" + sentKey + "\x12\x13")

// audience is what watchers there are while pods are created.
type audience struct {
	watchers int
	// byNode: each watches the pods of its own node, as kubelets do, and a pod
	// reaches one of them; else each pod reaches all.
	byNode bool
	rate   int
	time   time.Duration
}

// heard is what an audience saw, and what the writers felt.
type heard struct {
	achieved            float64 // writes a second
	write               spread
	delivery            spread // from before the request was sent to the event's having been read
	expected, delivered int
	ended               int // watches that the server ended
}

// watch creates pods at a rate and measures how they reach the watchers.
func (s *apiServer) watch(ctx context.Context, a audience, name string) (out heard, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := s.client()
	if err != nil {
		return out, err
	}
	list, err := client.CoreV1().Pods(watched).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return out, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	streams, err := s.openWatches(ctx, a, list.ResourceVersion)
	if err != nil {
		return out, err
	}
	var delivered, ended atomic.Int64
	deliveries := make([][]time.Duration, len(streams))
	for i, stream := range streams {
		wg.Go(func() {
			defer stream.Close()
			err := readEvents(stream, func(sent int64) {
				deliveries[i] = append(deliveries[i], time.Duration(time.Now().UnixNano()-sent))
				delivered.Add(1)
			})
			if ctx.Err() == nil {
				fmt.Printf("  %s ended a watch: %v\n", s.name, err)
				ended.Add(1)
			}
		})
	}
	latencies, took, err := s.createPaced(ctx, a, name)
	if err != nil {
		return out, err
	}
	out.write, out.achieved = spreadOf(latencies), float64(len(latencies))/took.Seconds()
	if out.expected = len(latencies); !a.byNode {
		out.expected *= a.watchers
	}
	if a.watchers == 0 {
		out.expected = 0
	}
	for end := time.Now().Add(5 * time.Second); delivered.Load() < int64(out.expected) && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
	out.ended = int(ended.Load())
	cancel()
	wg.Wait()
	out.delivered = int(delivered.Load())
	out.delivery = spreadOf(slices.Concat(deliveries...))
	return out, nil
}

// createPaced creates pods at the audience's rate from 16 workers.
func (s *apiServer) createPaced(ctx context.Context, a audience, name string) (latencies []time.Duration, took time.Duration, err error) {
	const workers = 16
	client, err := s.client()
	if err != nil {
		return nil, 0, err
	}
	each := make([][]time.Duration, workers)
	var wg sync.WaitGroup
	var faults failures
	begin := time.Now()
	end := begin.Add(a.time)
	for w := range workers {
		wg.Go(func() {
			for i := w; ctx.Err() == nil && !faults.any(); i += workers {
				due := begin.Add(time.Duration(i) * time.Second / time.Duration(a.rate))
				if !due.Before(end) {
					return
				}
				time.Sleep(time.Until(due))
				pod := samplePod(fmt.Sprintf("%s-%d", name, i))
				pod.Namespace = watched
				pod.Spec.NodeName = nodeName(i % max(a.watchers, 1))
				at := time.Now()
				if !at.Before(end) {
					return
				}
				pod.Annotations = map[string]string{sentKey: strconv.FormatInt(at.UnixNano(), 10)}
				if _, err := client.CoreV1().Pods(watched).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					faults.add(fmt.Errorf("%s: create pod %s: %w", s.name, pod.Name, err))
					return
				}
				each[w] = append(each[w], time.Since(at))
			}
		})
	}
	wg.Wait()
	return slices.Concat(each...), max(a.time, time.Since(begin)), faults.all()
}

func nodeName(i int) string { return fmt.Sprintf("bench-%d", i) }

// openWatches opens the audience's watches, over several connections.
func (s *apiServer) openWatches(ctx context.Context, a audience, after string) (_ []io.ReadCloser, err error) {
	streams := make([]io.ReadCloser, a.watchers)
	var faults failures
	var wg sync.WaitGroup
	for c := range min(watchConnections, a.watchers) {
		client, err := s.httpClient()
		if err != nil {
			return nil, err
		}
		wg.Go(func() {
			for i := c; i < a.watchers && !faults.any(); i += watchConnections {
				query := url.Values{"watch": {"1"}, "resourceVersion": {after}}
				path := "/api/v1/namespaces/" + watched + "/pods?"
				if a.byNode {
					query.Set("fieldSelector", "spec.nodeName="+nodeName(i))
					path = "/api/v1/pods?"
				}
				var err error
				if streams[i], err = openStream(ctx, client, s.cfg.Host+path+query.Encode()); err != nil {
					faults.add(fmt.Errorf("%s: watch %d: %w", s.name, i, err))
				}
			}
		})
	}
	wg.Wait()
	if err := faults.all(); err != nil {
		for _, stream := range streams {
			if stream != nil {
				stream.Close()
			}
		}
		return nil, err
	}
	return streams, nil
}

func openStream(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", runtime.ContentTypeProtobuf+";stream=watch")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, errors.New(resp.Status)
	}
	return resp.Body, nil
}

// readEvents reads a watch to its end, a frame after the other: four bytes of
// length, then the event. Nothing is decoded but the annotation.
func readEvents(stream io.Reader, seen func(sent int64)) error {
	const longest = 1 << 20
	in := bufio.NewReaderSize(stream, 32<<10)
	var head [4]byte
	var frame []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if n > longest {
			return fmt.Errorf("an event of %d bytes", n)
		}
		frame = slices.Grow(frame[:0], n)[:n]
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		at := bytes.Index(frame, sentMark)
		if at < 0 || at+len(sentMark)+19 > len(frame) {
			return fmt.Errorf("an event without the annotation: %q", frame[:min(n, 200)])
		}
		sent, err := strconv.ParseInt(string(frame[at+len(sentMark):at+len(sentMark)+19]), 10, 64)
		if err != nil {
			return err
		}
		seen(sent)
	}
}
