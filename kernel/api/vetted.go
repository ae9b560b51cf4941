package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"pintle.dev/pintle/kernel/api/admission/serviceaccount"
)

// maxVetted is how many pods vettedPods remembers.
const maxVetted = 1024

// vettedPods remembers pods that were found valid, with nothing to warn of, as
// they were after admission and but for their identity: validation asks nothing
// else than the pod. It was a sixth of what serving a create takes, and pods of
// one controller are one pod to it.
type vettedPods struct {
	mu   sync.RWMutex
	pods map[[sha256.Size]byte]struct{}
}

func (v *vettedPods) has(key [sha256.Size]byte) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, ok := v.pods[key]
	return ok
}

func (v *vettedPods) add(key [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods == nil || len(v.pods) >= maxVetted {
		v.pods = map[[sha256.Size]byte]struct{}{}
	}
	v.pods[key] = struct{}{}
}

// beforeCreate is rest.BeforeCreate of a pod that has its name and its system's
// metadata, and no map or list that is empty and not nil: its encoding could not tell
// those apart, and validation can.
func (v *vettedPods) beforeCreate(ctx context.Context, strategy rest.RESTCreateStrategy, pod *corev1.Pod) error {
	if namespace, ok := request.NamespaceFrom(ctx); !ok || pod.Namespace != namespace {
		return rest.BeforeCreate(strategy, ctx, pod) // admission has moved it
	}
	strategy.PrepareForCreate(ctx, pod)
	key, ok := vettingKey(pod)
	if ok && v.has(key) {
		strategy.Canonicalize(pod)
		return nil
	}
	p := &prepared{RESTCreateStrategy: strategy}
	if err := rest.BeforeCreate(p, ctx, pod); err != nil {
		return err
	}
	if ok && !p.warned {
		v.add(key)
	}
	return nil
}

// prepared is a strategy that has prepared its object already, and knows whether it warned.
type prepared struct {
	rest.RESTCreateStrategy
	warned bool
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (*prepared) PrepareForCreate(context.Context, runtime.Object) {}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (p *prepared) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	warnings := p.RESTCreateStrategy.WarningsOnCreate(ctx, obj)
	p.warned = len(warnings) > 0
	return warnings
}

// vettingKey is a digest of what validation depends on. The name is left out if
// nothing can be said about it by itself and nothing is named after it; and so is
// what the volume of the service account's token has drawn for its name.
func vettingKey(pod *corev1.Pod) (key [sha256.Size]byte, ok bool) {
	if !isLabel(pod.Name) || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil }) {
		return key, false
	}
	p := *pod
	p.Name, p.UID, p.CreationTimestamp = "", types.UID(""), metav1.Time{}
	p.ManagedFields = slices.Clone(pod.ManagedFields)
	for i := range p.ManagedFields {
		p.ManagedFields[i].Time = nil
	}
	return digest(&p, withoutDrawn(pod))
}

// withoutDrawn takes from the encoding of a pod what the name of its token's volume
// ends in, wherever it stands; nil: it has no such volume. All that it can end in is
// equally valid, and pods that differ in it alone become equal.
func withoutDrawn(pod *corev1.Pod) func(encoding []byte) bool {
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		end, ok := strings.CutPrefix(v.Name, serviceaccount.VolumePrefix)
		return ok && v.Projected != nil && len(end) == drawnLen && isLabel(end) && !strings.Contains(end, "-")
	})
	if at < 0 {
		return nil
	}
	name := []byte(pod.Spec.Volumes[at].Name)
	blank := append([]byte(serviceaccount.VolumePrefix), make([]byte, drawnLen)...)
	return func(encoding []byte) bool {
		if bytes.Contains(encoding, blank) {
			return false // it would become equal to one that is not
		}
		for {
			at := bytes.Index(encoding, name)
			if at < 0 {
				return true
			}
			copy(encoding[at:], blank)
			encoding = encoding[at+len(name):]
		}
	}
}

// drawnLen is how many characters names.SimpleNameGenerator draws.
const drawnLen = 5

// isLabel says whether a name is a DNS label, as most are.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !(r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') }) < 0
}
