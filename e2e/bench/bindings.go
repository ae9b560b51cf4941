package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// bound selects the pods that are bound: the server sends those alone, of either side.
const bound = "spec.nodeName!="

// bindings follows the pods of a namespace that are bound. While it is measured it
// counts them as they arrive, and keeps them as they came: to decode ten thousand
// pods would take the processors from what is measured. settle decodes them.
type bindings struct {
	client  kubernetes.Interface
	stop    func() // and waits
	changed chan struct{}
	// early are pods that were bound when the watch began, at began.
	early int
	began time.Time

	mu      sync.Mutex
	have    int // pods that are bound
	kept    []arrival
	node    map[types.UID]string
	at      map[string]time.Time // by name, when it was seen bound
	version string               // of the last object that was decoded
	first   time.Time
	last    time.Time
	fault   error
	// begun, if not nil, is called as the first pod is bound.
	begun func()
}

// arrival is an event of the watch, its object encoded.
type arrival struct {
	kind watch.EventType
	raw  []byte
	at   time.Time
}

// mostKept bounds the arrivals that are kept, about 3 KB each.
const mostKept = 20_000

func followBindings(ctx context.Context, client kubernetes.Interface) (*bindings, error) {
	list, err := client.CoreV1().Pods(measured).List(ctx, metav1.ListOptions{FieldSelector: bound})
	if err != nil {
		return nil, err
	}
	b := &bindings{
		client: client, changed: make(chan struct{}, 1),
		early: len(list.Items), have: len(list.Items), began: time.Now(), version: list.ResourceVersion,
		node: map[types.UID]string{}, at: map[string]time.Time{},
	}
	for i := range list.Items {
		b.node[list.Items[i].UID] = list.Items[i].Spec.NodeName
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := b.watch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	b.stop = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		b.fail(b.follow(ctx, stream))
	}()
	return b, nil
}

func (b *bindings) watch(ctx context.Context) (io.ReadCloser, error) {
	return b.client.CoreV1().RESTClient().Get().Namespace(measured).Resource("pods").
		SetHeader("Accept", runtime.ContentTypeProtobuf+";stream=watch").
		VersionedParams(&metav1.ListOptions{Watch: true, FieldSelector: bound, ResourceVersion: b.version}, scheme.ParameterCodec).Stream(ctx)
}

// follow goes on where a server ends a watch, as kube-apiserver does in its first
// seconds.
func (b *bindings) follow(ctx context.Context, stream io.ReadCloser) error {
	for {
		err := b.take(stream)
		stream.Close()
		if ctx.Err() != nil || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the watch ended: %w", err)
		}
		if err := b.settle(); err != nil {
			return err
		}
		if stream, err = b.watch(ctx); err != nil {
			return fmt.Errorf("the watch ended: %w", err)
		}
	}
}

// take reads events until the stream ends.
func (b *bindings) take(stream io.Reader) error {
	const largest = 4 << 20
	in := bufio.NewReaderSize(stream, 64<<10)
	var size [4]byte
	for {
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > largest {
			return fmt.Errorf("an event of %d bytes", n)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		var e metav1.WatchEvent
		if err := e.Unmarshal(frame); err != nil {
			return fmt.Errorf("an event that cannot be read: %w", err)
		}
		if err := b.arrived(arrival{watch.EventType(e.Type), e.Object.Raw, time.Now()}); err != nil {
			return err
		}
	}
}

func (b *bindings) arrived(a arrival) error {
	b.mu.Lock()
	b.kept = append(b.kept, a)
	full := len(b.kept) >= mostKept
	switch a.kind {
	case watch.Added:
		b.have++
		if b.first.IsZero() {
			b.first = a.at
			if b.begun != nil {
				b.begun()
			}
		}
		b.last = a.at
	case watch.Modified, watch.Bookmark:
	default:
		full = true // see what it is
	}
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	if full {
		return b.settle()
	}
	return nil
}

func (b *bindings) fail(err error) {
	b.mu.Lock()
	b.fault = errors.Join(b.fault, err)
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// settle decodes what has arrived. It is an error if a pod was bound twice, to
// different nodes, or deleted.
func (b *bindings) settle() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.kept
	b.kept = nil
	for _, a := range kept {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(a.raw, nil, nil)
		if err != nil {
			return err
		}
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("watch: %s %v", a.kind, obj)
		}
		b.version = pod.ResourceVersion
		if a.kind == watch.Bookmark {
			continue
		}
		before, known := b.node[pod.UID]
		switch {
		case a.kind == watch.Deleted:
			return fmt.Errorf("pod %s was deleted", pod.Name)
		case pod.Spec.NodeName == "":
			return fmt.Errorf("pod %s was said to be bound, and is not", pod.Name)
		case known && before != pod.Spec.NodeName:
			return fmt.Errorf("pod %s was bound to %s, then to %q", pod.Name, before, pod.Spec.NodeName)
		case known && a.kind == watch.Added:
			return fmt.Errorf("pod %s was bound twice", pod.Name)
		case !known:
			b.node[pod.UID], b.at[pod.Name] = pod.Spec.NodeName, a.at
		}
	}
	return nil
}

// await returns when n pods are bound.
func (b *bindings) await(ctx context.Context, n int) error {
	for {
		b.mu.Lock()
		have, fault := b.have, b.fault
		b.mu.Unlock()
		if fault != nil || have >= n {
			return fault
		}
		select {
		case <-b.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d pods are bound", context.Cause(ctx), have, n)
		}
	}
}

// latencies are from before the create was sent until the pod was seen bound, of
// those that are settled.
func (b *bindings) latencies(l *load) spread {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []time.Duration
	for i, name := range l.names {
		if at, ok := b.at[name]; ok {
			all = append(all, at.Sub(l.sent[i]))
		}
	}
	return spreadOf(all)
}
