package dynamic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/client-go/tools/cache"
)

const (
	// readyWait is how long a request waits until it is known what is configured, and
	// readyTick how often it looks.
	readyWait = 10 * time.Second
	readyTick = 2 * time.Millisecond
)

// Plugin is one of upstream's plugins, which is made when it is needed.
type Plugin struct {
	*admission.Handler
	name string
	own  Own
	// configured are the objects without which there is nothing to do: of each kind one.
	configured []cache.SharedIndexInformer
	make       func() (admission.Interface, error)
	stop       <-chan struct{}
	// followed are the handlers of what configures it. They keep used, which requests read.
	followed []cache.ResourceEventHandlerRegistration
	known    atomic.Bool // the handlers have synced, which they stay
	used     atomic.Bool // there is an object of each kind
	mu       sync.Mutex  // of who finds that out
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// newPlugin makes p known to the informers of what configures it.
func newPlugin(p *Plugin, changed func(), operations ...admission.Operation) (*Plugin, error) {
	p.Handler = admission.NewHandler(operations...)
	p.make = sync.OnceValues(whileRunning(p.make, p.stop))
	// Made ahead of the first request. One that comes before waits for the same.
	follow := func() {
		p.mu.Lock() // informers of two kinds tell of their objects at a time
		p.used.Store(p.configuredAtAll())
		p.mu.Unlock()
		changed()
		if p.used.Load() {
			_, _ = p.make() // the request is told
		}
	}
	for _, informer := range p.configured {
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { follow() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { follow() },
		})
		if err != nil {
			return nil, fmt.Errorf("follow what configures %s: %w", p.name, err)
		}
		p.followed = append(p.followed, handler)
	}
	return p, nil
}

var errStopping = errors.New("the server is stopping")

// whileRunning makes nothing when everything stops: upstream's plugins take it for
// granted that informers which have ended take handlers.
func whileRunning(makes func() (admission.Interface, error), stop <-chan struct{}) func() (admission.Interface, error) {
	return func() (plugin admission.Interface, err error) {
		defer func() {
			fault := recover()
			if fault == nil {
				return
			}
			select {
			case <-stop:
				plugin, err = nil, errStopping
			default:
				panic(fault)
			}
		}()
		select {
		case <-stop:
			return nil, errStopping
		default:
			return makes()
		}
	}
}

// Name is upstream's.
func (p *Plugin) Name() string { return p.name }

// inUse reports whether there is an object of each kind.
func (p *Plugin) inUse() bool { return p.used.Load() }

func (p *Plugin) configuredAtAll() bool {
	for _, informer := range p.configured {
		if len(informer.GetStore().ListKeys()) == 0 {
			return false
		}
	}
	return true
}

func (p *Plugin) synced() bool {
	if p.known.Load() {
		return true
	}
	for _, handler := range p.followed {
		if !handler.HasSynced() {
			return false
		}
	}
	p.known.Store(true)
	return true
}

// await waits until it is known what is configured.
func (p *Plugin) await(ctx context.Context) bool {
	if p.synced() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	tick := time.NewTicker(readyTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return p.synced()
		case <-tick.C:
			if p.synced() {
				return true
			}
		}
	}
}

// of is the plugin for a request; nil: it has nothing to say about it.
func (p *Plugin) of(ctx context.Context, a admission.Attributes) (admission.Interface, error) {
	if rules.IsExemptAdmissionConfigurationResource(a) || p.own != nil && p.own(ctx, a.GetUserInfo()) {
		return nil, nil
	}
	if !p.await(ctx) {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	if !p.inUse() {
		return nil, nil
	}
	plugin, err := p.make()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission plugin %s: %w", p.name, err))
	}
	return plugin, nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, err := p.of(ctx, a)
	if err != nil {
		return err
	}
	mutating, ok := plugin.(admission.MutationInterface)
	if !ok {
		return nil
	}
	defer withKindOf(a.GetObject())()
	return mutating.Admit(ctx, a, interfaces{o})
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, err := p.of(ctx, a)
	if err != nil {
		return err
	}
	if validating, ok := plugin.(admission.ValidationInterface); ok {
		return validating.Validate(ctx, a, interfaces{o})
	}
	return nil
}
