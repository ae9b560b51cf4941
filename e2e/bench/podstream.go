package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// podStream follows the pods of the namespace. What it fills is read in await, or
// under its lock.
type podStream struct {
	w       watch.Interface
	see     func(watch.EventType, *corev1.Pod) error
	done    chan struct{}
	changed chan struct{}

	mu    sync.Mutex
	fault error // of what was seen, or of the watch
}

// followPods gives each change of a pod from now on to see, which the lock guards.
func followPods(ctx context.Context, client kubernetes.Interface, see func(watch.EventType, *corev1.Pod) error) (*podStream, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, err
	}
	p := &podStream{w: w, see: see, done: make(chan struct{}), changed: make(chan struct{}, 1)}
	go p.follow()
	return p, nil
}

func (p *podStream) follow() {
	defer close(p.done)
	for e := range p.w.ResultChan() {
		p.mu.Lock()
		if pod, ok := e.Object.(*corev1.Pod); !ok {
			p.fault = fmt.Errorf("watch: %v", e.Object)
		} else if err := p.see(e.Type, pod); err != nil {
			p.fault = err
		}
		p.mu.Unlock()
		p.tell()
	}
	p.mu.Lock()
	p.fault = errors.Join(p.fault, errors.New("the watch ended"))
	p.mu.Unlock()
	p.tell()
}

// tell wakes await. It never waits.
func (p *podStream) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// await returns when what was seen is enough. The lock guards reached, which says
// how far it is too.
func (p *podStream) await(ctx context.Context, reached func() (bool, string)) error {
	for {
		p.mu.Lock()
		ok, far := reached()
		err := p.fault
		p.mu.Unlock()
		if err != nil {
			return fmt.Errorf("%w: %s", err, far)
		}
		if ok {
			return nil
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), far)
		}
	}
}

func (p *podStream) stop() {
	p.w.Stop()
	<-p.done
}
