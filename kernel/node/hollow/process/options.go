package process

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/node/hollow"
)

// ErrOptions is wrapped where an option cannot be used.
var ErrOptions = errors.New("hollow")

// Options say which nodes run, and where.
type Options struct {
	// Cluster is a configuration of a client, as a kubeconfig gives it.
	Cluster *rest.Config
	// Nodes is how many, from 1 to hollow.Most. They are named Name-0, Name-1 and so on.
	Nodes  int
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity replaces or adds to hollow.DefaultCapacity, by resource.
	Capacity corev1.ResourceList
	// StartRate is how many nodes per second begin; 0: as many as can.
	StartRate float64
	// LeaseDuration and StatusReport are as those of hollow.Config; at least four and ten
	// seconds.
	LeaseDuration, StatusReport time.Duration
	// QPS and Burst limit the requests of each node; a negative QPS: nothing does.
	QPS   float32
	Burst int
	// ContentType of requests and answers.
	ContentType string
	// Runtime is the name of the runtime plugin and of its bundle, which lies below one of
	// the folders of PluginDirectories.
	Runtime           string
	PluginDirectories []string
	Logger            *slog.Logger
	// Progress is called with each step, to show it. Nil: steps are not shown.
	Progress func(format string, args ...any)
}

// refused is an option that cannot be used.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrOptions, fmt.Errorf(format, args...))
}

// check says what is wrong with the options.
func (o *Options) check() error {
	if o.Nodes < 1 || o.Nodes > hollow.Most {
		return refused("--nodes %d: want 1 to %d", o.Nodes, hollow.Most)
	}
	last := fmt.Sprintf("%s-%d", o.Name, o.Nodes-1)
	if msgs := validation.IsDNS1123Subdomain(last); len(msgs) > 0 {
		return refused("--name %q: a node would be named %q: %s", o.Name, last, msgs[0])
	}
	if msgs := validation.IsDNS1123Subdomain(leaseName(o.Name)); len(msgs) > 0 {
		return refused("--name %q: the Lease of its names would be named %q: %s", o.Name, leaseName(o.Name), msgs[0])
	}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			return refused("--node-labels: key %q: %s", key, msgs[0])
		}
		if msgs := validation.IsValidLabelValue(o.Labels[key]); len(msgs) > 0 {
			return refused("--node-labels: value %q of %s: %s", o.Labels[key], key, msgs[0])
		}
	}
	if o.StartRate < 0 {
		return refused("--start-rate %g: want 0 or more nodes per second", o.StartRate)
	}
	if o.LeaseDuration < 4*time.Second || o.LeaseDuration > 24*time.Hour {
		return refused("--node-lease-duration %s: want 4s to 24h", o.LeaseDuration)
	}
	if o.StatusReport < 10*time.Second || o.StatusReport > 24*time.Hour {
		return refused("--node-status-report-frequency %s: want 10s to 24h", o.StatusReport)
	}
	return nil
}

// ParseTaints reads taints in the form of --register-with-taints: key=value:effect or
// key:effect, with commas between.
func ParseTaints(text string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		pair, effect, ok := strings.Cut(one, ":")
		key, value, _ := strings.Cut(pair, "=")
		if !ok {
			return nil, refused("taint %q: want KEY=VALUE:EFFECT", one)
		}
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			return nil, refused("taint %q: key %q: %s", one, key, msgs[0])
		}
		if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
			return nil, refused("taint %q: value %q: %s", one, value, msgs[0])
		}
		switch corev1.TaintEffect(effect) {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return nil, refused("taint %q: effect %q: want NoSchedule, PreferNoSchedule or NoExecute", one, effect)
		}
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints, nil
}

// maxPods is how many addresses a node has for pods.
const maxPods = 126

// Capacity is what a node has: pods, what replaces the default, as cpu=32, and extended
// resources, whose names have a domain.
func Capacity(pods int, values, extended map[string]string) (corev1.ResourceList, error) {
	if pods < 1 || pods > maxPods {
		return nil, refused("--max-pods %d: want 1 to %d, the addresses that a node has", pods, maxPods)
	}
	list := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI)}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		default:
			return nil, refused("--capacity: resource %q: want cpu, memory or ephemeral-storage; others are for --extended-resources", name)
		}
	}
	for name := range extended {
		if domain, _, ok := strings.Cut(name, "/"); !ok || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
			return nil, refused("--extended-resources: %q: want a name with a domain that is not kubernetes.io, as example.com/gpu", name)
		}
	}
	for flag, set := range map[string]map[string]string{"--capacity": values, "--extended-resources": extended} {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if msgs := validation.IsQualifiedName(name); len(msgs) > 0 {
				return nil, refused("%s: resource %q: %s", flag, name, msgs[0])
			}
			quantity, err := resource.ParseQuantity(set[name])
			if err != nil || quantity.Sign() < 0 {
				return nil, refused("%s: %s=%q: want a quantity of zero or more", flag, name, set[name])
			}
			list[corev1.ResourceName(name)] = quantity
		}
	}
	return list, nil
}
