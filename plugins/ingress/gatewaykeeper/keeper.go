package gatewaykeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	"sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	"pintle.dev/pintle/plugins/ingress/gateway"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// Name of the plugin.
	Name = "gateway"
	// asks is how often it is looked for the kinds of Gateway API while there are none.
	asks = 5 * time.Second
	// regularly is when writes that failed are tried again.
	regularly = 30 * time.Second
	// maxWrites of one namespace are in one round, which the next one follows after rests.
	maxWrites = 100
	rests     = time.Second
)

// Settings of the plugin.
type Settings struct {
	// Class is the GatewayClass that is made unless there is one; empty: none is made.
	Class string `json:"class"`
}

func read(data []byte) (Settings, error) {
	s := Settings{Class: "pintle"}
	if err := controller.DecodeConfig(data, &s); err != nil {
		return s, err
	}
	if s.Class != "" {
		if faults := validation.NameIsDNSSubdomain(s.Class, false); len(faults) > 0 {
			return s, fmt.Errorf("configuration: class: %q: %s", s.Class, faults[0])
		}
	}
	return s, nil
}

// New returns how the controller is built that offers its objects to an Exchange.
func New(with *gateway.Exchange) func(*controller.Context) (controller.Runner, error) {
	return func(c *controller.Context) (controller.Runner, error) {
		s, err := read(c.Config)
		if err != nil {
			return nil, err
		}
		client, err := versioned.NewForConfig(c.RESTConfig)
		if err != nil {
			return nil, fmt.Errorf("client of Gateway API: %w", err)
		}
		return build(c.Client, client, with, s, c.Logger), nil
	}
}

type keeper struct {
	core     kubernetes.Interface
	client   versioned.Interface
	exchange *gateway.Exchange
	settings Settings
	log      *slog.Logger
	asks     time.Duration
	told     chan gateway.Output
	touched  chan struct{} // a status is not as it was
	fault    string        // what was logged last

	of sources
}

func build(core kubernetes.Interface, client versioned.Interface, with *gateway.Exchange, s Settings, log *slog.Logger) *keeper {
	return &keeper{core: core, client: client, exchange: with, settings: s, log: log, asks: asks, told: make(chan gateway.Output, 1), touched: make(chan struct{}, 1)}
}

// Run works until ctx ends.
func (k *keeper) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil // it was built to try a configuration
	}
	settled := k.exchange.Expect()
	defer settled()
	if !k.await(ctx, settled) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	kinds := externalversions.NewSharedInformerFactoryWithOptions(k.client, 0, externalversions.WithTransform(slim))
	core := informers.NewSharedInformerFactoryWithOptions(k.core, 0, informers.WithTransform(slim))
	defer func() {
		cancel()
		kinds.Shutdown()
		core.Shutdown()
	}()
	synced, err := k.of.begin(kinds, core, k.exchange.Changed, k.touch)
	if err != nil {
		return err
	}
	kinds.Start(ctx.Done())
	core.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx ended
	}
	withdraw := k.exchange.Offer(k.of.objects, k.tell)
	settled()
	defer withdraw()
	regular := time.NewTicker(regularly)
	defer regular.Stop()
	k.writeAll(ctx, regular.C)
	return nil
}

// writeAll writes statuses until ctx ends. Those of a new table are written at once. What another
// writer changed is written again after a pause: two that disagree would else write without end.
func (k *keeper) writeAll(ctx context.Context, regular <-chan time.Time) {
	var out *gateway.Output
	var again <-chan time.Time
	for {
		if k.write(ctx, out) && again == nil {
			again = time.After(rests)
		}
		for waits := true; waits; {
			waits = false
			select {
			case <-ctx.Done():
				return
			case o := <-k.told:
				out = &o
			case <-again:
				again = nil
			case <-regular:
			case <-k.touched:
				if waits = true; again == nil {
					again = time.After(rests)
				}
			}
		}
	}
}

// touch asks for a write.
func (k *keeper) touch() {
	select {
	case k.touched <- struct{}{}:
	default:
	}
}

// tell keeps the newest of what is to be written. One goroutine calls it.
func (k *keeper) tell(out gateway.Output) {
	select {
	case <-k.told:
	default:
	}
	select {
	case k.told <- out:
	default: // another one came between, which is as new
	}
}

// await waits for the kinds of Gateway API, and calls settled where there are none. It
// reports false when ctx ended.
func (k *keeper) await(ctx context.Context, settled func()) bool {
	tick := time.NewTicker(k.asks)
	defer tick.Stop()
	said := false
	for ctx.Err() == nil {
		err := k.served()
		if err == nil {
			return true
		}
		if apierrors.IsNotFound(err) {
			settled()
		}
		if !said {
			said = true
			k.log.Warn("gateway waits for the CustomResourceDefinitions of Gateway API; install them as its README says", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return false
}

// served reports what of the kinds is missing.
func (k *keeper) served() error {
	for version, wanted := range map[string][]string{
		"v1": {"gatewayclasses", "gateways", "httproutes", "grpcroutes"}, "v1beta1": {"referencegrants"},
	} {
		list, err := k.client.Discovery().ServerResourcesForGroupVersion(gatewayv1.GroupName + "/" + version)
		if err != nil {
			return fmt.Errorf("kinds of %s/%s: %w", gatewayv1.GroupName, version, err)
		}
		for _, name := range wanted {
			if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
				return fmt.Errorf("%s/%s has no %s", gatewayv1.GroupName, version, name)
			}
		}
	}
	return nil
}

// write writes the class and the statuses. It reports whether a namespace has more of them
// than one round writes.
func (k *keeper) write(ctx context.Context, out *gateway.Output) (more bool) {
	turn := &turns{count: map[string]int{}}
	err := k.writeClasses(ctx)
	if out != nil {
		err = errors.Join(err, k.writeGateways(ctx, out, turn), k.writeHTTPRoutes(ctx, out, turn), k.writeGRPCRoutes(ctx, out, turn))
	}
	if ctx.Err() != nil {
		return false
	}
	now := ""
	if err != nil {
		now = err.Error()
		now = now[:min(len(now), 1000)]
	}
	if now != "" && now != k.fault {
		k.log.Warn("gateway cannot write all that it should; it is tried again", "error", now)
	}
	k.fault = now
	return turn.more
}

// turns bound the writes of one round, so that no namespace holds up the others.
type turns struct {
	count map[string]int
	more  bool
}

func (t *turns) take(namespace string) bool {
	if t.count[namespace] >= maxWrites {
		t.more = true
		return false
	}
	t.count[namespace]++
	return true
}

// slim takes from cached objects what nothing here goes by.
func slim(o any) (any, error) {
	if of, ok := o.(metav1.Object); ok {
		of.SetManagedFields(nil)
	}
	return o, nil
}

// ignorable are errors of writes after which a change asks for the next round.
func ignorable(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// makeClass makes the class of the settings where there is none of its name.
func (k *keeper) makeClass(ctx context.Context) error {
	if k.settings.Class == "" {
		return nil
	}
	if _, err := k.of.classes.Get(k.settings.Class); !apierrors.IsNotFound(err) {
		return err
	}
	class := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: k.settings.Class}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gateway.Controller}}
	_, err := k.client.GatewayV1().GatewayClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make GatewayClass %s: %w", k.settings.Class, err)
	}
	return nil
}

// everything is the selector of all objects.
var everything = labels.Everything()

// features are what GatewayClasses say that is supported, in order.
var features = func() []gatewayv1.SupportedFeature {
	names := strings.Fields(`GRPCRoute GRPCRouteNamedRouteRule Gateway GatewayAddressEmpty GatewayHTTPListenerIsolation GatewayHTTPSListenerDetectMisdirectedRequests HTTPRoute
		HTTPRoute303RedirectStatusCode HTTPRoute307RedirectStatusCode HTTPRoute308RedirectStatusCode
		HTTPRouteBackendProtocolH2C HTTPRouteBackendProtocolWebSocket HTTPRouteBackendRequestHeaderModification HTTPRouteBackendTimeout
		HTTPRouteDestinationPortMatching HTTPRouteHostRewrite HTTPRouteMethodMatching HTTPRouteNamedRouteRule HTTPRouteParentRefPort HTTPRoutePathRedirect HTTPRoutePathRewrite
		HTTPRoutePortRedirect HTTPRouteQueryParamMatching HTTPRouteRequestTimeout HTTPRouteResponseHeaderModification HTTPRouteSchemeRedirect ReferenceGrant`)
	var out []gatewayv1.SupportedFeature
	for _, n := range names {
		out = append(out, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(n)})
	}
	return out
}()
