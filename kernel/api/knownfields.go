package api

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Bounds of what knownFields remembers.
const (
	maxKnownFields   = 1024
	maxKnownEncoding = 16 << 10 // bytes of a pod
)

// knownFields knows the managed fields that creates of pods give. They are the
// paths of all fields that a new pod has but those of its identity, so pods that
// differ in that alone have the same: all of one controller. Comparing a pod
// with an empty one, and writing down what is different, was a tenth of the
// processor time of a create.
type knownFields struct {
	manager *managedfields.FieldManager
	mu      sync.RWMutex
	known   map[[sha256.Size]byte]*metav1.FieldsV1
}

// set gives a pod that is to be created its managed fields.
func (k *knownFields) set(pod *corev1.Pod, manager string) {
	key, ok := identityless(pod)
	if ok {
		k.mu.RLock()
		fields := k.known[key]
		k.mu.RUnlock()
		if fields != nil {
			now := metav1.NewTime(time.Now().UTC())
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: podKind.GroupVersion().String(),
				Time: &now, FieldsType: "FieldsV1", FieldsV1: fields,
			}}
			return
		}
	}
	k.manager.UpdateNoErrors(&corev1.Pod{}, pod, manager)
	if m := pod.ManagedFields; ok && len(m) == 1 && m[0].FieldsV1 != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.known == nil || len(k.known) >= maxKnownFields {
			k.known = map[[sha256.Size]byte]*metav1.FieldsV1{}
		}
		k.known[key] = m[0].FieldsV1.DeepCopy()
	}
}

var encodings = sync.Pool{New: func() any { return new([]byte) }}

// identityless is a digest of all of a pod but name and namespace.
func identityless(pod *corev1.Pod) (key [sha256.Size]byte, ok bool) {
	p := *pod
	p.Name, p.Namespace = "", ""
	if p.GenerateName != "" {
		p.GenerateName = "x"
	}
	return digest(&p, nil)
}

// digest is one of a pod's encoding, after adjust, where that is not nil and does not refuse.
func digest(p *corev1.Pod, adjust func([]byte) bool) (key [sha256.Size]byte, ok bool) {
	size := p.Size()
	if size > maxKnownEncoding {
		return key, false
	}
	b := encodings.Get().(*[]byte)
	defer encodings.Put(b)
	if cap(*b) < size {
		*b = make([]byte, size)
	}
	n, err := p.MarshalToSizedBuffer((*b)[:size])
	if err != nil {
		return key, false
	}
	encoding := (*b)[size-n : size]
	if adjust != nil && !adjust(encoding) {
		return key, false
	}
	return sha256.Sum256(encoding), true
}

// resetFilter is what the store's strategy takes back of a request.
func resetFilter(store *genericregistry.Store) map[fieldpath.APIVersion]fieldpath.Filter {
	return fieldpath.NewExcludeFilterSetMap(store.GetResetFields())
}

// printable leaves out what cannot be printed, and cuts to a number of bytes.
func printable(s string, limit int) string {
	var b strings.Builder
	for _, r := range s {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
