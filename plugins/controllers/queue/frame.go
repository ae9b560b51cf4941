package queue

import (
	"context"
	"log/slog"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/sdk/controller"
)

// Frame is what a controller is beside its logic: a queue with its workers, handlers
// on shared informers, and a recorder of events. A controller embeds one, says what it
// watches in its New, and has its Run from it.
type Frame[K comparable] struct {
	*Loop[K]
	// Recorder is there while the controller runs.
	Recorder record.EventRecorder

	client  kubernetes.Interface
	source  string
	watches []Watch
	others  []Worker
}

var _ controller.Runner = (*Frame[string])(nil)

// NewFrame returns a frame whose workers call sync for each key. Events are written
// with client and signed as source.
func NewFrame[K comparable](client kubernetes.Interface, log *slog.Logger, source string, sync func(ctx context.Context, key K) error, o Options[K]) *Frame[K] {
	return &Frame[K]{Loop: New(log, sync, o), client: client, source: source}
}

// Watch has a handler put on a shared informer when the controller runs; nil waits for
// the informer's cache alone.
func (f *Frame[K]) Watch(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	f.watches = append(f.watches, Watch{Informer: informer, Handler: handler})
}

// Beside adds workers that run beside the queue's.
func (f *Frame[K]) Beside(workers ...Worker) { f.others = append(f.others, workers...) }

// Run works until ctx ends, and returns when workers have ended, handlers are off the
// informers and the recorder is shut down. A frame runs once.
func (f *Frame[K]) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, f.client, f.source)
	defer stop()
	f.Recorder = recorder
	return Follow(ctx, f.watches, append([]Worker{f.Loop}, f.others...)...)
}

// Close ends the queues of a frame that is never run.
func (f *Frame[K]) Close() {
	f.Loop.Close()
	for _, w := range f.others {
		w.Close()
	}
}
