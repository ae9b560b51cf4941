package pleg

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// streams is a runtime that has nothing but event streams: each of the given events, then an end.
type streams struct {
	runtimeapi.RuntimeServiceClient
	grpc.ClientStream

	mu    sync.Mutex
	plan  [][]*runtimeapi.ContainerEventResponse
	ends  error
	opens int
}

func (s *streams) GetContainerEvents(ctx context.Context, _ *runtimeapi.GetEventsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens++
	one := &stream{ctx: ctx, ends: s.ends}
	if len(s.plan) > 0 {
		one.left, s.plan = s.plan[0], s.plan[1:]
	} else {
		one.ends = nil // stays open
	}
	return one, nil
}

type stream struct {
	grpc.ClientStream
	ctx  context.Context
	left []*runtimeapi.ContainerEventResponse
	ends error
}

func (s *stream) Recv() (*runtimeapi.ContainerEventResponse, error) {
	if len(s.left) > 0 {
		ev := s.left[0]
		s.left = s.left[1:]
		return ev, nil
	}
	if s.ends != nil {
		return nil, s.ends
	}
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

func event(node, uid string) *runtimeapi.ContainerEventResponse {
	s := &runtimeapi.PodSandboxStatus{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}}
	if node != "" {
		s.Annotations = map[string]string{cri.NodeMetadata: node}
	}
	return &runtimeapi.ContainerEventResponse{PodSandboxStatus: s}
}

func containerEvent(uid string) *runtimeapi.ContainerEventResponse {
	return &runtimeapi.ContainerEventResponse{ContainersStatuses: []*runtimeapi.ContainerStatus{{}, {Labels: map[string]string{cri.LabelPodUID: uid}}}}
}

// TestEvents: each node hears of its pods and of no other's, and that something was missed when a stream began anew.
func TestEvents(t *testing.T) {
	rt := &streams{ends: io.EOF, plan: [][]*runtimeapi.ContainerEventResponse{{
		event("a", "1"), event("b", "2"), event("c", "3"), event("", "4"), containerEvent("5"), {}, event("a", ""), event("a", "6"),
	}}}
	e := NewEvents(rt, slog.New(slog.DiscardHandler))
	var mu sync.Mutex
	heard, missed := map[string][]types.UID{}, make(chan string, 3)
	for _, node := range []string{"a", "b", ""} {
		e.Subscribe(node, Listener{
			Changed: func(uid types.UID, _ time.Time) { mu.Lock(); defer mu.Unlock(); heard[node] = append(heard[node], uid) },
			Missed:  func() { missed <- node },
		})
	}
	e.Subscribe("gone", Listener{Missed: func() { t.Error("told though it left") }})()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	for range 3 {
		<-missed
	}
	if !e.Streaming() {
		t.Error("not streaming though a stream is open")
	}
	cancel()
	<-done
	if e.Streaming() {
		t.Error("streaming after the end")
	}
	for node, want := range map[string][]types.UID{"a": {"1", "6"}, "b": {"2"}, "": {"4", "5"}} {
		if !slices.Equal(heard[node], want) {
			t.Errorf("node %q heard of %v, want %v", node, heard[node], want)
		}
	}
}

// TestMoments: an event is dated so that it is not lost where the machine's clock was set, before it or on its way.
func TestMoments(t *testing.T) {
	const soon = 5 * time.Millisecond // on the way
	for name, tc := range map[string]struct {
		before, during time.Duration // by which the clock was set before the event, and while it was on its way
		created        func(wall int64) int64
		age            time.Duration
	}{
		"by the same clock":     {0, 0, nil, soon},
		"set back":              {-time.Hour, 0, nil, soon},
		"set forward":           {time.Hour, 0, nil, soon},
		"set back on its way":   {0, -time.Hour, nil, 0},
		"set forward by little": {0, 30 * time.Millisecond, nil, 0},
		"set forward by much":   {0, time.Hour, nil, 0},
		"without a date":        {0, 0, func(int64) int64 { return 0 }, 0},
		"in seconds":            {0, 0, func(wall int64) int64 { return wall / int64(time.Second) }, 0},
		"from the future":       {0, 0, func(wall int64) int64 { return wall + int64(time.Hour) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEvents(nil, slog.New(slog.DiscardHandler))
				var set time.Duration
				e.wall = func(at time.Time) int64 { return at.Add(set).UnixNano() }
				var at time.Time
				e.Subscribe("", Listener{Changed: func(_ types.UID, when time.Time) { at = when }})
				send := func(during time.Duration, created func(int64) int64) {
					ev := event("", "u")
					ev.CreatedAt = e.wall(time.Now())
					if created != nil {
						ev.CreatedAt = created(ev.CreatedAt)
					}
					time.Sleep(soon)
					set += during
					e.tell(ev)
				}
				send(0, nil)
				time.Sleep(time.Minute)
				looked := time.Now() // by the work, before the clock was set
				set += tc.before
				if tc.before != 0 {
					send(0, nil) // the first by a new clock has no date
					if at.Before(looked) {
						t.Error("the first event after the clock was set is lost")
					}
				}
				time.Sleep(time.Second)
				send(tc.during, tc.created)
				if age := time.Since(at); age != tc.age || at.Before(looked) {
					t.Errorf("it is dated %s ago, want %s", age, tc.age)
				}
			})
		})
	}
}

// TestNoEvents: a runtime without a stream is not asked again.
func TestNoEvents(t *testing.T) {
	rt := &streams{ends: status.Error(codes.Unimplemented, "none"), plan: [][]*runtimeapi.ContainerEventResponse{nil}}
	e := NewEvents(rt, slog.New(slog.DiscardHandler))
	e.Run(t.Context())
	if rt.opens != 1 || e.Streaming() {
		t.Errorf("%d streams, streaming %t", rt.opens, e.Streaming())
	}
	if errors.Is(t.Context().Err(), context.Canceled) {
		t.Error("it went on until the end")
	}
}
