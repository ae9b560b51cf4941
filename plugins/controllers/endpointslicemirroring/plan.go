package endpointslicemirroring

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	endpointsliceutil "k8s.io/endpointslice/util"
)

// plan is what has to be written.
type plan struct {
	create, update, remove []*discoveryv1.EndpointSlice
	right                  []*discoveryv1.EndpointSlice // as they should be
}

// planFor compares the wanted slices with those that exist. A slice that is no
// longer wanted is used for one that is, where the family allows it: the family
// of a slice never changes.
func planFor(endpoints *corev1.Endpoints, want []wantedSlice, have []*discoveryv1.EndpointSlice) plan {
	free := slices.SortedFunc(slices.Values(have), func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	take := func(fits func(*discoveryv1.EndpointSlice) bool) *discoveryv1.EndpointSlice {
		i := slices.IndexFunc(free, fits)
		if i < 0 {
			return nil
		}
		found := free[i]
		free = slices.Delete(free, i, i+1)
		return found
	}
	var p plan
	var unmatched []wantedSlice
	for _, w := range want {
		old := take(func(s *discoveryv1.EndpointSlice) bool { return keyOf(s) == w.key })
		switch {
		case old == nil:
			unmatched = append(unmatched, w)
		case isRight(old, endpoints, w):
			p.right = append(p.right, old)
		default:
			p.update = append(p.update, again(old, endpoints, w))
		}
	}
	for _, w := range unmatched {
		if old := take(func(s *discoveryv1.EndpointSlice) bool { return s.AddressType == w.key.family }); old != nil {
			p.update = append(p.update, again(old, endpoints, w))
			continue
		}
		p.create = append(p.create, filled(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: endpoints.Namespace, GenerateName: endpoints.Name + "-"},
			AddressType: w.key.family,
		}, endpoints, w))
	}
	p.remove = free
	return p
}

func keyOf(s *discoveryv1.EndpointSlice) sliceKey {
	// The key sorts what it is given, and the cache's object is not ours.
	return sliceKey{s.AddressType, endpointsliceutil.NewPortMapKey(slices.Clone(s.Ports))}
}

// again is a slice that is updated. As upstream's it loses the prefix that its name was
// made of, which a creation alone reads.
func again(old *discoveryv1.EndpointSlice, endpoints *corev1.Endpoints, w wantedSlice) *discoveryv1.EndpointSlice {
	s := filled(old.DeepCopy(), endpoints, w)
	s.GenerateName = ""
	return s
}

// filled makes a slice what it should be and keeps its identity.
func filled(s *discoveryv1.EndpointSlice, endpoints *corev1.Endpoints, w wantedSlice) *discoveryv1.EndpointSlice {
	s.Labels, s.Annotations = labelsFor(endpoints), annotationsFor(endpoints)
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(endpoints, corev1.SchemeGroupVersion.WithKind("Endpoints"))}
	s.Ports, s.Endpoints = w.ports, w.endpoints
	return s
}

func labelsFor(endpoints *corev1.Endpoints) map[string]string {
	out := maps.Clone(endpoints.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[discoveryv1.LabelServiceName], out[discoveryv1.LabelManagedBy] = endpoints.Name, Name
	return out
}

// annotationsFor leaves out what is true of the Endpoints object alone.
func annotationsFor(endpoints *corev1.Endpoints) map[string]string {
	out := maps.Clone(endpoints.Annotations)
	delete(out, corev1.EndpointsLastChangeTriggerTime)
	delete(out, corev1.LastAppliedConfigAnnotation)
	return out
}

func isRight(s *discoveryv1.EndpointSlice, endpoints *corev1.Endpoints, w wantedSlice) bool {
	if !maps.Equal(s.Labels, labelsFor(endpoints)) || !apiequality.Semantic.DeepEqual(s.Annotations, annotationsFor(endpoints)) ||
		!metav1.IsControlledBy(s, endpoints) || len(s.Endpoints) != len(w.endpoints) {
		return false
	}
	set := endpointsliceutil.EndpointSet{}
	for i := range s.Endpoints {
		e := s.Endpoints[i].DeepCopy() // the set sorts addresses
		set.Insert(e)
	}
	return !slices.ContainsFunc(w.endpoints, func(e discoveryv1.Endpoint) bool {
		old := set.Get(&e)
		return old == nil || !endpointsliceutil.EndpointsEqualBeyondHash(old, &e)
	})
}
