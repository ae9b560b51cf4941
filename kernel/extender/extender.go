package extender

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"pintle.dev/pintle/kernel/reasons"
)

const (
	// DefaultTimeout is the deadline of a call where none is configured.
	DefaultTimeout = 5 * time.Second
	// maxAnswer bounds an answer; whole nodes of a large cluster take the most.
	maxAnswer = 64 << 20
)

// Config is one server. Verbs are added to URLPrefix; an empty one is what it is
// not asked for.
type Config struct {
	URLPrefix                                         string
	FilterVerb, PrioritizeVerb, BindVerb, PreemptVerb string
	// Weight is the factor of its scores, which are 0 to 10.
	Weight int64
	// Timeout of one call; 0: DefaultTimeout.
	Timeout     time.Duration
	EnableHTTPS bool
	TLS         rest.TLSClientConfig
	// NodeCacheCapable: it is told names of nodes, not whole nodes.
	NodeCacheCapable bool
	// ManagedResources are extended resources; it is asked about pods that ask for
	// one of them. None: about all pods.
	ManagedResources []string
	// Ignorable: while it fails, pods are placed without it.
	Ignorable bool
}

// Extender is one server.
type Extender struct {
	cfg     Config
	managed map[v1.ResourceName]bool
	client  *http.Client
}

// New checks the configuration and reads the files it names. It connects to nobody.
func New(cfg Config) (*Extender, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	tls := cfg.TLS
	if cfg.EnableHTTPS && tls.CAFile == "" && len(tls.CAData) == 0 {
		tls.Insecure = true
	}
	client, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: tls})
	if err != nil {
		return nil, fmt.Errorf("extender %s: TLS: %w", cfg.URLPrefix, err)
	}
	e := &Extender{cfg: cfg, managed: map[v1.ResourceName]bool{}, client: &http.Client{
		Timeout:       cfg.Timeout,
		Transport:     utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: client}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, name := range cfg.ManagedResources {
		e.managed[v1.ResourceName(name)] = true
	}
	return e, nil
}

// Close ends idle connections.
func (e *Extender) Close() { e.client.CloseIdleConnections() }

// Name is the URL, which is what tells extenders apart.
func (e *Extender) Name() string { return e.cfg.URLPrefix }

// Ignorable reports whether pods are placed without it while it fails.
func (e *Extender) Ignorable() bool { return e.cfg.Ignorable }

// Filters reports whether it is asked which nodes fit.
func (e *Extender) Filters() bool { return e.cfg.FilterVerb != "" }

// Prioritizes reports whether it is asked for scores.
func (e *Extender) Prioritizes() bool { return e.cfg.PrioritizeVerb != "" }

// Binds reports whether it binds.
func (e *Extender) Binds() bool { return e.cfg.BindVerb != "" }

// Preempts reports whether it is asked about victims.
func (e *Extender) Preempts() bool { return e.cfg.PreemptVerb != "" }

// Interested reports whether it is asked about a pod: one that asks for a resource
// which it manages, or any if it manages none.
func (e *Extender) Interested(pod *v1.Pod) bool {
	if len(e.managed) == 0 {
		return true
	}
	asks := func(containers []v1.Container) bool {
		for i := range containers {
			for _, list := range []v1.ResourceList{containers[i].Resources.Requests, containers[i].Resources.Limits} {
				for name := range list {
					if e.managed[name] {
						return true
					}
				}
			}
		}
		return false
	}
	return asks(pod.Spec.Containers) || asks(pod.Spec.InitContainers)
}

// args are a pod and nodes as the server takes them.
func (e *Extender) args(pod *v1.Pod, nodes []*v1.Node) (*extenderv1.ExtenderArgs, map[string]bool) {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	asked := make(map[string]bool, len(nodes))
	if e.cfg.NodeCacheCapable {
		names := make([]string, 0, len(nodes))
		for _, n := range nodes {
			names = append(names, n.Name)
			asked[n.Name] = true
		}
		args.NodeNames = &names
		return args, asked
	}
	args.Nodes = &v1.NodeList{Items: make([]v1.Node, 0, len(nodes))}
	for _, n := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *n)
		asked[n.Name] = true
	}
	return args, asked
}

// Filter returns the names of the nodes that the server leaves, and why it refused
// others; nothing could help about those in hopeless.
func (e *Extender) Filter(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (left []string, failed, hopeless map[string]string, err error) {
	args, asked := e.args(pod, nodes)
	var result extenderv1.ExtenderFilterResult
	if err := e.send(ctx, e.cfg.FilterVerb, args, &result); err != nil {
		return nil, nil, nil, err
	}
	if result.Error != "" {
		return nil, nil, nil, e.failure(result.Error)
	}
	switch {
	case e.cfg.NodeCacheCapable && result.NodeNames != nil:
		left = *result.NodeNames
	case result.Nodes != nil:
		for i := range result.Nodes.Items {
			left = append(left, result.Nodes.Items[i].Name)
		}
	}
	seen := make(map[string]bool, len(left))
	for _, name := range left {
		if !asked[name] || seen[name] {
			return nil, nil, nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", e.cfg.URLPrefix, name)
		}
		seen[name] = true
	}
	return left, e.words(result.FailedNodes), e.words(result.FailedAndUnresolvableNodes), nil
}

// failure is the error that a server answered, in words that users may be shown.
func (e *Extender) failure(said string) error {
	return errors.New(cmp.Or(reasons.Text(said), "extender "+e.cfg.URLPrefix+" failed and did not say why"))
}

// words are why nodes were refused, as users may be shown them.
func (e *Extender) words(said map[string]string) map[string]string {
	for node, why := range said {
		if clean := cmp.Or(reasons.Text(why), "refused by extender "+e.cfg.URLPrefix); clean != why && why != "" {
			said[node] = clean
		}
	}
	return said
}

// Prioritize returns the server's scores by node, each with its weight in it: of a
// scale of 0 to 10. Scores out of it count as the nearer end.
func (e *Extender) Prioritize(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (map[string]int64, error) {
	args, asked := e.args(pod, nodes)
	var result extenderv1.HostPriorityList
	if err := e.send(ctx, e.cfg.PrioritizeVerb, args, &result); err != nil {
		return nil, err
	}
	scores := make(map[string]int64, len(result))
	for _, p := range result {
		if asked[p.Host] {
			scores[p.Host] = min(max(p.Score, extenderv1.MinExtenderPriority), extenderv1.MaxExtenderPriority) * e.cfg.Weight
		}
	}
	return scores, nil
}

// Bind has the server bind a pod.
func (e *Extender) Bind(ctx context.Context, b *v1.Binding) error {
	var result extenderv1.ExtenderBindingResult
	if err := e.send(ctx, e.cfg.BindVerb, &extenderv1.ExtenderBindingArgs{
		PodName: b.Name, PodNamespace: b.Namespace, PodUID: b.UID, Node: b.Target.Name,
	}, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return e.failure(result.Error)
	}
	return nil
}

// Preempt returns which of the victims, by node, the server agrees with. A node without any
// is left out of the answer of an ignorable one, and an error of others. The caller knows which pods are on which node.
func (e *Extender) Preempt(ctx context.Context, pod *v1.Pod, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.cfg.NodeCacheCapable {
		args.NodeNameToMetaVictims = make(map[string]*extenderv1.MetaVictims, len(victims))
		for node, v := range victims {
			meta := &extenderv1.MetaVictims{Pods: make([]*extenderv1.MetaPod, 0, len(v.Pods)), NumPDBViolations: v.NumPDBViolations}
			for _, p := range v.Pods {
				meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(p.UID)})
			}
			args.NodeNameToMetaVictims[node] = meta
		}
	} else {
		args.NodeNameToVictims = victims
	}
	var result extenderv1.ExtenderPreemptionResult
	if err := e.send(ctx, e.cfg.PreemptVerb, args, &result); err != nil {
		return nil, err
	}
	for node, meta := range result.NodeNameToMetaVictims {
		if meta != nil && len(meta.Pods) > 0 && !slices.Contains(meta.Pods, nil) {
			continue
		}
		if !e.cfg.Ignorable {
			return nil, fmt.Errorf("expected at least one victim pod on node %q", node)
		}
		delete(result.NodeNameToMetaVictims, node)
	}
	return result.NodeNameToMetaVictims, nil
}

// send makes one call.
func (e *Extender) send(ctx context.Context, verb string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("extender %s: %w", e.cfg.URLPrefix, err)
	}
	url := strings.TrimRight(e.cfg.URLPrefix, "/") + "/" + verb
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("extender %s: %w", e.cfg.URLPrefix, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err // it names the URL
	}
	defer resp.Body.Close()
	answer := &io.LimitedReader{R: resp.Body, N: maxAnswer}
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, answer, 64<<10) // so that the connection can be used again
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, resp.StatusCode)
	}
	if err := json.NewDecoder(answer).Decode(result); err != nil {
		if answer.N == 0 {
			return fmt.Errorf("extender at URL %s answered more than %d bytes", url, maxAnswer)
		}
		return fmt.Errorf("extender at URL %s: %w", url, err)
	}
	return nil
}
