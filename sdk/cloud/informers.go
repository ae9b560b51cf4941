package cloud

import (
	"sync"
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// handlers notes what is added to shared informers, which upstream's controllers never
// take off: their programs end with them.
type handlers struct {
	mu  sync.Mutex
	off []func() error
}

// remove takes all of it off.
func (h *handlers) remove() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, off := range h.off {
		_ = off() // an informer that has ended has no handler
	}
	h.off = nil
}

// servicesOf and nodesOf are informers whose handlers are noted.
type servicesOf struct {
	coreinformers.ServiceInformer
	noted *handlers
}

// Informer implements coreinformers.ServiceInformer.
func (i servicesOf) Informer() cache.SharedIndexInformer {
	return noting{i.ServiceInformer.Informer(), i.noted}
}

type nodesOf struct {
	coreinformers.NodeInformer
	noted *handlers
}

// Informer implements coreinformers.NodeInformer.
func (i nodesOf) Informer() cache.SharedIndexInformer {
	return noting{i.NodeInformer.Informer(), i.noted}
}

// noting is a shared informer that notes its handlers.
type noting struct {
	cache.SharedIndexInformer
	noted *handlers
}

func (n noting) note(r cache.ResourceEventHandlerRegistration, err error) (cache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		n.noted.mu.Lock()
		defer n.noted.mu.Unlock()
		n.noted.off = append(n.noted.off, func() error { return n.RemoveEventHandler(r) })
	}
	return r, err
}

// AddEventHandler implements cache.SharedInformer, as do the others.
func (n noting) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return n.note(n.SharedIndexInformer.AddEventHandler(handler))
}

// AddEventHandlerWithResyncPeriod is used with periods that the shared informers do not
// have. What upstream does by them it does by its queues' back-off, too.
func (n noting) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return n.note(n.SharedIndexInformer.AddEventHandler(handler))
}

// AddEventHandlerWithOptions adds a handler with options.
func (n noting) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return n.note(n.SharedIndexInformer.AddEventHandlerWithOptions(handler, options))
}
