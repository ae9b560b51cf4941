package keeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/plugins/ingress/certificates"
	"pintle.dev/pintle/plugins/ingress/gateway"
	"pintle.dev/pintle/plugins/ingress/proxy"
	"pintle.dev/pintle/plugins/ingress/routes"
	"pintle.dev/pintle/plugins/ingress/settings"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// Name of the plugin.
	Name = "ingress"
	// Controller is what classes of this plugin name.
	Controller = "pintle.dev/ingress"
	// classAnnotation is the older way to name a class.
	classAnnotation = "kubernetes.io/ingress.class"

	byService = "ingress-service"
	// gathers is how long changes are waited for that come together.
	gathers = 20 * time.Millisecond
	// share: a round is followed by a rest of this many times as long.
	share = 4
	// longestRest between two rounds.
	longestRest = 5 * time.Second
	// awaits is how long the start may wait for the objects of Gateway API.
	awaits = 30 * time.Second
	// regularly is when writes that failed are tried again, and the node is looked at.
	regularly = 30 * time.Second
)

// New returns how the controller is built that serves what is offered to an Exchange beside
// its Ingresses. Its configuration is settings.Settings as JSON.
func New(with *gateway.Exchange) func(*controller.Context) (controller.Runner, error) {
	return func(c *controller.Context) (controller.Runner, error) {
		s, err := settings.Read(c.Config)
		if err != nil {
			return nil, err
		}
		return build(c.Client, c.Informers, with, s, c.NodeName, c.Logger)
	}
}

type keeper struct {
	client   kubernetes.Interface
	settings settings.Settings
	node     string
	log      *slog.Logger
	exchange *gateway.Exchange

	ingresses networkinglisters.IngressLister
	classes   networkinglisters.IngressClassLister
	services  corelisters.ServiceLister
	slices    cache.Indexer
	informers map[cache.SharedIndexInformer]func(any) bool // which of their objects matter

	proxy    *proxy.Proxy
	secrets  *certificates.Store
	recorder record.EventRecorder
	wake     chan struct{}
	table    atomic.Pointer[routes.Table]
	// published are the addresses that were written last.
	published atomic.Pointer[[]string]

	// Of the goroutine that makes tables. Hosts stay with Gateways while their controller is
	// away, so that no Ingress takes one meanwhile.
	claims  []routes.Claim
	offered bool
	// statuses are those of the table in force; nil: none of Gateway API are offered.
	statuses *gateway.Output
	located  bool // the addresses were known when they were made
	patterns gateway.Patterns

	// Of the goroutine that writes.
	said  map[saidKey]bool
	ours  map[types.UID]bool // Ingresses that were served
	fault string             // what was logged last
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, with *gateway.Exchange, s settings.Settings, node string, log *slog.Logger) (*keeper, error) {
	ingresses, classes := shared.Networking().V1().Ingresses(), shared.Networking().V1().IngressClasses()
	services, slices := shared.Core().V1().Services(), shared.Discovery().V1().EndpointSlices()
	k := &keeper{
		client: client, settings: s, node: node, log: log, exchange: with,
		ingresses: ingresses.Lister(), classes: classes.Lister(), services: services.Lister(), slices: slices.Informer().GetIndexer(),
		wake: make(chan struct{}, 1), said: map[saidKey]bool{}, ours: map[types.UID]bool{},
	}
	if k.slices.GetIndexers()[byService] == nil {
		if err := slices.Informer().AddIndexers(cache.Indexers{byService: serviceOfSlice}); err != nil {
			return nil, fmt.Errorf("index of endpoint slices: %w", err)
		}
	}
	all := func(any) bool { return true }
	k.informers = map[cache.SharedIndexInformer]func(any) bool{
		ingresses.Informer(): all, classes.Informer(): all, services.Informer(): k.uses, slices.Informer(): k.uses,
	}
	own, err := certificates.Own(time.Now())
	if err != nil {
		return nil, err
	}
	k.secrets = certificates.New(client, s.SecretInterval.Duration, k.again)
	k.proxy = proxy.New(s, func(name routes.SecretName) *tls.Certificate {
		c, _ := k.secrets.Get(name)
		return c
	}, own, log)
	return k, nil
}

func serviceOfSlice(o any) ([]string, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || s.Labels[discoveryv1.LabelServiceName] == "" {
		return nil, nil
	}
	return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}, nil
}

// uses reports whether the table in force has to do with a service, or with a slice of one.
func (k *keeper) uses(o any) bool {
	t := k.table.Load()
	if t == nil {
		return true
	}
	switch o := o.(type) {
	case *corev1.Service:
		return t.Uses(o.Namespace, o.Name)
	case *discoveryv1.EndpointSlice:
		return t.Uses(o.Namespace, o.Labels[discoveryv1.LabelServiceName])
	}
	return true
}

// again asks for a round.
func (k *keeper) again() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// follow has changes of an informer's objects ask for rounds.
func (k *keeper) follow(matters func(any) bool) cache.ResourceEventHandler {
	changed := func(objects ...any) {
		for _, o := range objects {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if matters(o) {
				k.again()
				return
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(o) },
		UpdateFunc: func(before, o any) { changed(before, o) },
		DeleteFunc: func(o any) { changed(o) },
	}
}

// Run works until ctx ends. It listens when the first table is complete.
func (k *keeper) Run(ctx context.Context) (err error) {
	recorder, stop := controller.Recorder(ctx, k.client, Controller)
	defer stop()
	k.recorder = recorder
	var synced []cache.InformerSynced
	for informer, matters := range k.informers {
		registration, fault := informer.AddEventHandler(k.follow(matters))
		if fault != nil {
			return fmt.Errorf("event handler: %w", fault)
		}
		defer func() { err = errors.Join(err, informer.RemoveEventHandler(registration)) }()
		synced = append(synced, registration.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	leave := k.exchange.Follow(k.again)
	defer leave()
	k.exchange.Await(ctx, awaits)
	k.learn(ctx)
	first := k.compile()
	k.secrets.Read(ctx, false)
	if ctx.Err() != nil {
		return nil
	}
	if err := k.proxy.Listen(ctx); err != nil {
		k.notListening()
		// The class counts from the next try on, for those who wait for it to be there.
		if fault := k.makeClass(ctx); fault != nil {
			k.log.Warn("the class is made when the ports are free", "error", fault)
		}
		k.sayNotListening(ctx, first.Served, err)
		return err
	}
	k.tellGateways()
	k.log.Info("ingress listens", "addresses", fmt.Sprint(k.proxy.Addresses()))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return k.proxy.Run(ctx) })
	g.Go(func() error { return k.secrets.Run(ctx) })
	told := make(chan routes.Output, 1)
	told <- first
	g.Go(func() error { k.work(ctx, told); return nil })
	g.Go(func() error { k.tell(ctx, told); return nil })
	if err := g.Wait(); err != nil {
		k.notListening()
		return err
	}
	return nil
}

// work makes a table whenever something changed, until ctx ends, and leaves the newest in
// told.
func (k *keeper) work(ctx context.Context, told chan routes.Output) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		}
		began := time.Now()
		out := k.compile()
		k.tellGateways()
		select {
		case <-told: // one that was not looked at yet
		default:
		}
		told <- out // nobody else writes to it
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(max(gathers, share*time.Since(began)), longestRest)):
		}
	}
}

// tell writes what tables are about into the API, and again from time to time.
func (k *keeper) tell(ctx context.Context, told <-chan routes.Output) {
	regular := time.NewTicker(regularly)
	defer regular.Stop()
	var out routes.Output
	for {
		select {
		case <-ctx.Done():
			return
		case out = <-told:
		case <-regular.C:
		}
		k.write(ctx, out)
	}
}

// compile makes a table of what the caches have, and puts it into force.
func (k *keeper) compile() routes.Output {
	var owners map[string]string
	// What changes from here on asks for the next table: the present one does not say what matters.
	if before := k.table.Swap(nil); before != nil {
		owners = before.Owners()
	}
	var served []*networkingv1.Ingress
	all, err := k.ingresses.List(labels.Everything())
	if err != nil {
		k.log.Error("ingresses cannot be listed", "error", err) // a cache: it does not happen
	}
	for _, i := range all {
		if i.DeletionTimestamp == nil && k.serves(i) {
			served = append(served, i)
		}
	}
	prepared := k.prepareGateways()
	if prepared != nil {
		if !k.offered {
			owners = nil // Ingresses were alone so far; age alone counts, as after a start
		}
		k.offered, k.claims = true, prepared.Claims
	}
	out := routes.Compile(routes.Input{
		Ingresses: served, Owners: owners, Claims: k.claims, MaxPaths: k.settings.MaxPathsPerNamespace,
		Service: func(namespace, name string) *corev1.Service {
			s, err := k.services.Services(namespace).Get(name)
			if err != nil {
				return nil
			}
			return s
		},
		Slices: func(namespace, name string) []*discoveryv1.EndpointSlice {
			objects, err := k.slices.ByIndex(byService, namespace+"/"+name)
			if err != nil {
				return nil
			}
			slices := make([]*discoveryv1.EndpointSlice, 0, len(objects))
			for _, o := range objects {
				if s, ok := o.(*discoveryv1.EndpointSlice); ok {
					slices = append(slices, s)
				}
			}
			return slices
		},
	})
	k.statuses = nil
	wanted := map[routes.SecretName]bool{}
	for _, c := range out.Certificates {
		wanted[c.Secret] = true
	}
	if prepared != nil {
		k.compileGateways(prepared, &out, wanted)
	}
	k.secrets.Want(wanted)
	k.table.Store(out.Table)
	k.proxy.Use(out.Table)
	return out
}

// serves reports whether an Ingress is of a class of this controller.
func (k *keeper) serves(i *networkingv1.Ingress) bool {
	name := i.Annotations[classAnnotation]
	if i.Spec.IngressClassName != nil {
		name = *i.Spec.IngressClassName
	}
	if name == "" && i.Spec.IngressClassName == nil && k.settings.DefaultClass {
		// It was written before there was a class, which gives later ones its name.
		class, err := k.classes.Get(k.settings.Class)
		return err == nil && class.Spec.Controller == Controller && class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
	}
	if name == "" {
		return false
	}
	class, err := k.classes.Get(name)
	return err == nil && class.Spec.Controller == Controller
}

// write writes the class, the statuses and the events.
func (k *keeper) write(ctx context.Context, out routes.Output) {
	err := errors.Join(k.makeClass(ctx), k.writeStatuses(ctx, out.Served))
	k.sayProblems(out)
	if ctx.Err() != nil {
		return
	}
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != "" && now != k.fault {
		k.log.Warn("ingress cannot write all that it should; it is tried again", "error", err)
	}
	k.fault = now
}

// makeClass makes the class of the settings where there is none of its name.
func (k *keeper) makeClass(ctx context.Context) error {
	if k.settings.Class == "" {
		return nil
	}
	if _, err := k.classes.Get(k.settings.Class); !apierrors.IsNotFound(err) {
		return err
	}
	class := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: k.settings.Class},
		Spec:       networkingv1.IngressClassSpec{Controller: Controller},
	}
	if k.settings.DefaultClass {
		class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	_, err := k.client.NetworkingV1().IngressClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make IngressClass %s: %w", k.settings.Class, err)
	}
	return nil
}

// keepOnly forgets what is about Ingresses that are gone.
func (k *keeper) keepOnly(all []*networkingv1.Ingress) {
	there := map[types.UID]bool{}
	for _, i := range all {
		there[i.UID] = true
	}
	maps.DeleteFunc(k.ours, func(uid types.UID, _ bool) bool { return !there[uid] })
}
