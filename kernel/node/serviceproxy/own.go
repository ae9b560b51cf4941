package serviceproxy

import (
	"sync"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/sdk/proxy"
)

// Own are endpoints that this node serves by itself, in the place of those that slices name.
// A service that selects pods is theirs, and is left alone. The zero value has none. It is
// safe for concurrent use.
type Own struct {
	mu        sync.Mutex
	endpoints map[proxy.Name]*proxy.ServiceEndpoints
	changed   func(proxy.Name, *proxy.ServiceEndpoints)
	absent    func(proxy.Name) bool
}

// Set makes the node's endpoints of a service these; nil: it has none.
func (o *Own) Set(name proxy.Name, e *proxy.ServiceEndpoints) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if proto.Equal(o.endpoints[name], e) {
		return
	}
	if o.endpoints == nil {
		o.endpoints = map[proxy.Name]*proxy.ServiceEndpoints{}
	}
	if o.endpoints[name] = e; e == nil {
		delete(o.endpoints, name)
	}
	if o.changed != nil {
		o.changed(name, e)
	}
}

// of are the node's endpoints of a service; nil: those of slices count.
func (o *Own) of(name proxy.Name, svc *corev1.Service) *proxy.ServiceEndpoints {
	if o == nil || svc == nil || len(svc.Spec.Selector) > 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.endpoints[name]
}

// Absent says that the cluster has no service of this name. While that is not known it says false.
func (o *Own) Absent(name proxy.Name) bool {
	o.mu.Lock()
	absent := o.absent
	o.mu.Unlock()
	return absent != nil && absent(name)
}

// Follow calls changed for each change until the returned function is called. changed must not wait.
// absent answers Absent; nil: it is not known.
func (o *Own) Follow(changed func(name proxy.Name, e *proxy.ServiceEndpoints), absent func(proxy.Name) bool) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed, o.absent = changed, absent
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changed, o.absent = nil, nil
	}
}

// touch has a service handed over anew.
func (f *Feeder) touch(name proxy.Name, _ *proxy.ServiceEndpoints) {
	f.mu.Lock()
	f.dirty[name] = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
