package controller

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Recorder returns a recorder of events that signs them as source, and what
// stops it: Run calls that before it returns. Events are written in the
// background; like ones are folded into one, and a flood is cut. An event after
// the stop is dropped.
func Recorder(ctx context.Context, client kubernetes.Interface, source string) (record.EventRecorder, func()) {
	r := &recorder{begin: func() (record.EventBroadcaster, record.EventRecorder) {
		b := record.NewBroadcaster(record.WithContext(ctx))
		b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
		return b, b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: source})
	}}
	return r, r.stop
}

// recorder begins with the first event: the queues of client-go's take 80 KB, and most
// controllers of an idle process have nothing to say.
type recorder struct {
	begin func() (record.EventBroadcaster, record.EventRecorder)

	mu          sync.Mutex
	stopped     bool
	broadcaster record.EventBroadcaster // nil before the first event
	inner       record.EventRecorder
}

var _ record.EventRecorder = (*recorder)(nil)

// recording is the recorder of client-go; nil after a stop.
func (r *recorder) recording() record.EventRecorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	if r.inner == nil {
		r.broadcaster, r.inner = r.begin()
	}
	return r.inner
}

func (r *recorder) stop() {
	r.mu.Lock()
	r.stopped = true
	b := r.broadcaster
	r.mu.Unlock()
	if b != nil {
		b.Shutdown()
	}
}

// Event implements record.EventRecorder.
func (r *recorder) Event(object runtime.Object, kind, reason, message string) {
	if inner := r.recording(); inner != nil {
		inner.Event(object, kind, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (r *recorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	if inner := r.recording(); inner != nil {
		inner.Eventf(object, kind, reason, format, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (r *recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	if inner := r.recording(); inner != nil {
		inner.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	}
}
