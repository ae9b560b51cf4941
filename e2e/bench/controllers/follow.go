package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// pods follows the pods of the namespace: which were made, are ready and are there.
type pods struct {
	w       watch.Interface
	done    chan struct{}
	changed chan struct{}

	mu    sync.Mutex
	made  map[types.UID]bool
	ready map[types.UID]bool
	there map[types.UID]bool
	// madeAt, readyAt and goneAt are when the last one was seen so.
	madeAt, readyAt, goneAt time.Time
	fault                   error
}

func (s *side) follow(ctx context.Context) (*pods, error) {
	list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(list.Items) > 0 {
		return nil, fmt.Errorf("pod %s is there before the work begins", list.Items[0].Name)
	}
	// A server may end a watch; this goes on where it was.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return s.client.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	p := &pods{
		w: w, done: make(chan struct{}), changed: make(chan struct{}, 1),
		made: map[types.UID]bool{}, ready: map[types.UID]bool{}, there: map[types.UID]bool{},
	}
	go p.run()
	return p, nil
}

func (p *pods) run() {
	defer close(p.done)
	for e := range p.w.ResultChan() {
		p.mu.Lock()
		if pod, ok := e.Object.(*corev1.Pod); ok {
			p.see(e.Type, pod, time.Now())
		} else if e.Type == watch.Error {
			p.fault = fmt.Errorf("watch of pods: %v", e.Object)
		}
		p.mu.Unlock()
		p.tell()
	}
	p.mu.Lock()
	p.fault = errors.Join(p.fault, errors.New("the watch of pods ended"))
	p.mu.Unlock()
	p.tell()
}

func (p *pods) see(kind watch.EventType, pod *corev1.Pod, now time.Time) {
	if kind == watch.Deleted {
		delete(p.there, pod.UID)
		p.goneAt = now
		return
	}
	if !p.made[pod.UID] {
		p.made[pod.UID], p.there[pod.UID], p.madeAt = true, true, now
	}
	if !p.ready[pod.UID] && pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		p.ready[pod.UID], p.readyAt = true, now
	}
}

// tell wakes await. It never waits.
func (p *pods) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// await returns when what was seen is enough; it holds the lock for reached.
func (p *pods) await(ctx context.Context, reached func() bool) error {
	for {
		p.mu.Lock()
		ok, fault := reached(), p.fault
		far := fmt.Sprintf("%d pods were made, %d became ready, %d are there", len(p.made), len(p.ready), len(p.there))
		p.mu.Unlock()
		if fault != nil {
			return fmt.Errorf("%w: %s", fault, far)
		}
		if ok {
			return nil
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), far)
		}
	}
}

func (p *pods) stop() {
	p.w.Stop()
	<-p.done
}
