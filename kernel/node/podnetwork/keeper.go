package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/sdk/network"
)

const (
	// look is how often the plugin is asked how it is.
	look = 2 * time.Second
	// patience is how many looks a plugin may not be ready until the condition says so.
	patience = 15
	// startTimeout bounds a start, and applyTimeout a diff.
	startTimeout, applyTimeout = 30 * time.Second, 30 * time.Second
	// soon is the pause between tries while the node's runtime waits.
	soon = 100 * time.Millisecond
	// settle is how long changes gather: machines that join come together.
	settle = 10 * time.Millisecond
)

// Config says what connects pods. All is required but Clock.
type Config struct {
	// Plugin is its name.
	Plugin string
	// Connect returns the plugin.
	Connect func() (network.Network, error)
	// Options are handed to its start.
	Options network.Options
	// Nodes may list and watch Nodes. Client has the node's identity: it writes the node's
	// condition, and events.
	Nodes, Client kubernetes.Interface
	Logger        *slog.Logger
	Clock         clock.WithTicker
}

// Keeper keeps the network of one node.
type Keeper struct {
	cfg    Config
	plugin network.Network
	nodes  corelisters.NodeLister
	events record.EventRecorder

	// Run's alone.
	sent       map[string]*network.Node
	generation uint64
	reset      bool
	missed     int // looks in a row at which the plugin was not ready
	said       string
	refused    map[string]string // what was said of which node
	condition  written           // the one that was written last
	key        string            // of this node, as its plugin answered
	unsaid     string            // why the Node does not have the key; the log has it once
}

// New checks the configuration; nothing is started.
func New(cfg Config) (*Keeper, error) {
	switch {
	case cfg.Plugin == "" || cfg.Connect == nil:
		return nil, errors.New("pod network: no plugin is named")
	case cfg.Nodes == nil || cfg.Client == nil || cfg.Logger == nil || cfg.Options.NodeName == "":
		return nil, errors.New("pod network: no client, no logger, or no name of the node")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Keeper{cfg: cfg, reset: true, refused: map[string]string{}}, nil
}

// Start starts the plugin, and returns how the runtime makes pods' interfaces. It tries again
// while the plugin's process is not there yet, for startTimeout at most. An error says that
// pods would not be reached, such as since their range is a network of the machine.
func (k *Keeper) Start(ctx context.Context) (network.Pods, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		pods, err := k.start(ctx)
		if err == nil {
			return pods, nil
		}
		err = fmt.Errorf("plugin %s: %w", k.cfg.Plugin, err)
		if errors.Is(err, network.ErrUnusable) || status.Code(err) == codes.FailedPrecondition {
			return pods, err // another try ends the same
		}
		select {
		case <-ctx.Done():
			return pods, err
		case <-k.cfg.Clock.After(soon):
		}
	}
}

func (k *Keeper) start(ctx context.Context) (network.Pods, error) {
	if k.plugin == nil {
		p, err := k.cfg.Connect()
		if err != nil {
			return network.Pods{}, err
		}
		k.plugin = p
	}
	if err := k.plugin.Probe(ctx, k.cfg.Options.Config); err != nil {
		return network.Pods{}, err
	}
	pods, err := k.plugin.Start(ctx, k.cfg.Options)
	if err == nil && len(pods.PublicKey) > mostKey {
		err = fmt.Errorf("its public key has %d bytes; want %d at most", len(pods.PublicKey), mostKey)
	}
	k.key = pods.PublicKey
	return pods, err
}

// Run tells the plugin the other nodes until ctx ends; see Stop. Call it after Start. A plugin
// that fails is no fault of the node.
func (k *Keeper) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	poke := func(any) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(k.cfg.Nodes, 0, informers.WithTransform(slim))
	nodes := factory.Core().V1().Nodes()
	k.nodes = nodes.Lister()
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: poke, DeleteFunc: poke, UpdateFunc: func(_, now any) { poke(now) },
	}); err != nil {
		return fmt.Errorf("pod network: watch nodes: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.cfg.Client.CoreV1().Events("")})
	k.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "pod-network", Host: k.cfg.Options.NodeName})
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel() // Shutdown waits for the informer, which ends with ctx
	synced := nodes.Informer().HasSynced
	tick := k.cfg.Clock.NewTicker(look)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			ticked = true
		case <-wake:
			select {
			case <-ctx.Done():
				return nil
			case <-k.cfg.Clock.After(settle):
			}
		}
		k.round(ctx, synced(), ticked)
	}
}

// slim keeps of a Node what a network gets, for the cache.
func slim(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	out := &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs}, Status: corev1.NodeStatus{Addresses: n.Status.Addresses}}
	if key, ok := n.Annotations[KeyAnnotation]; ok {
		out.Annotations = map[string]string{KeyAnnotation: key}
	}
	out.Name, out.UID, out.ResourceVersion, out.CreationTimestamp, out.Labels = n.Name, n.UID, n.ResourceVersion, n.CreationTimestamp, n.Labels
	return out, nil
}

// round tells the plugin what changed, and others how it is. known: the nodes are.
func (k *Keeper) round(ctx context.Context, known, ticked bool) {
	state := k.plugin.Status()
	var err error
	switch {
	case !known:
		err = errors.New("the other nodes are not known yet; may the node list Nodes?")
		if !ticked {
			return
		}
	default:
		if !state.Ready {
			k.reset = true // it was started anew, or still applies the last diff
		}
		k.publish(ctx)
		var applied bool
		if applied, err = k.feed(ctx); applied {
			state = k.plugin.Status()
		}
		if err == nil && !state.Ready {
			err = errors.New(state.Message)
		}
	}
	if ctx.Err() != nil {
		return
	}
	k.say(err)
	k.tellRefusals(state.Refused)
	switch {
	case err == nil:
		k.missed = 0
	case ticked:
		k.missed++
	}
	if err == nil || k.missed >= patience {
		k.tellCondition(ctx, err)
	}
}

// feed hands over what changed.
func (k *Keeper) feed(ctx context.Context) (applied bool, err error) {
	now := map[string]*network.Node{}
	list, err := k.nodes.List(everything)
	if err != nil {
		return false, err
	}
	for _, n := range list {
		if told := nodeOf(n); told != nil && n.Name != k.cfg.Options.NodeName {
			now[n.Name] = told
		}
	}
	diff := difference(k.sent, now, k.generation+1, k.reset)
	if diff == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	if err := k.plugin.Apply(ctx, diff); err != nil {
		k.reset = true
		return false, err
	}
	k.sent, k.reset = now, false
	k.generation++
	return true, nil
}

// say logs once what goes on being so.
func (k *Keeper) say(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if k.said == now {
		return
	}
	if k.said = now; err != nil {
		k.cfg.Logger.Warn("pods of other nodes may not be reached; routes that there were stay, and it is tried again", "plugin", k.cfg.Plugin, "error", err)
		return
	}
	k.cfg.Logger.Info("pods of other nodes are reached", "plugin", k.cfg.Plugin, "nodes", len(k.sent))
}

// mostReason bounds what a plugin says of a node, in bytes.
const mostReason = 512

// tellRefusals makes an event of each node that is refused for another reason than before.
func (k *Keeper) tellRefusals(list []*network.Refusal) {
	now := map[string]string{}
	for _, r := range list {
		if _, known := k.sent[r.GetNode()]; known && now[r.GetNode()] == "" {
			now[r.GetNode()] = r.GetReason()[:min(mostReason, len(r.GetReason()))]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if k.refused[name] == now[name] {
			continue
		}
		node, err := k.nodes.Get(name)
		if err != nil {
			continue // it is gone
		}
		k.cfg.Logger.Warn("pods of a node are not reached from here", "node", name, "reason", now[name])
		// The reason is that of Kubernetes' route controller.
		k.events.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}, corev1.EventTypeWarning,
			"FailedToCreateRoute", "Could not create route from node %s: %s", k.cfg.Options.NodeName, now[name])
	}
	k.refused = now
}

// Stop stops the plugin after Run has returned; with cleanup nothing that it did to the
// machine stays.
func (k *Keeper) Stop(ctx context.Context, cleanup bool) error {
	if k.plugin == nil {
		return nil
	}
	if err := k.plugin.Stop(ctx, cleanup); err != nil {
		return fmt.Errorf("stop plugin %s: %w", k.cfg.Plugin, err)
	}
	return nil
}
