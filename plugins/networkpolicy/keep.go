package networkpolicy

import (
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// largeSubject is what of a policy's own selector is kept where its rules are not, in bytes.
const largeSubject = 4096

// keeper bounds what is kept of the policies of each namespace. Of one for which there is no
// room the subject and the directions are kept, by which its pods are isolated.
type keeper struct {
	limit int // bytes, roughly, a namespace

	mu    sync.Mutex
	kept  map[string]map[string]int // bytes of those kept whole, by namespace and name
	left  map[string]map[string]int // bytes of those that were not
	total map[string]int            // of kept, by namespace
}

func newKeeper(limit int) *keeper {
	return &keeper{limit: limit, kept: map[string]map[string]int{}, left: map[string]map[string]int{}, total: map[string]int{}}
}

// slim leaves of a policy what there is room for. It is a cache.TransformFunc.
func (k *keeper) slim(o any) (any, error) {
	p, ok := o.(*networkingv1.NetworkPolicy)
	if !ok {
		return o, nil
	}
	out := &networkingv1.NetworkPolicy{ObjectMeta: slimMeta(p.ObjectMeta), Spec: p.Spec}
	if !k.take(p.Namespace, p.Name, weigh(&p.Spec)) {
		out.Annotations = map[string]string{program.NotKept: "true"}
		out.Spec = subjectOf(&p.Spec)
	}
	return out, nil
}

// subjectOf is a policy without rules: whom it isolates, and how. A selector that is large
// itself becomes that of every pod.
func subjectOf(s *networkingv1.NetworkPolicySpec) networkingv1.NetworkPolicySpec {
	out := networkingv1.NetworkPolicySpec{PolicyTypes: s.PolicyTypes}
	if len(out.PolicyTypes) == 0 {
		out.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(s.Egress) > 0 {
			out.PolicyTypes = append(out.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	if weighSelector(&s.PodSelector) <= largeSubject {
		out.PodSelector = s.PodSelector
	}
	return out
}

func (k *keeper) take(namespace, name string, weight int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(namespace, name)
	list, fits := k.kept, k.total[namespace]+weight <= k.limit
	if fits {
		k.total[namespace] += weight
	} else {
		list = k.left
	}
	if list[namespace] == nil {
		list[namespace] = map[string]int{}
	}
	list[namespace][name] = weight
	return fits
}

// drop forgets one. The caller holds mu.
func (k *keeper) drop(namespace, name string) {
	k.total[namespace] -= k.kept[namespace][name]
	for _, list := range []map[string]map[string]int{k.kept, k.left} {
		if delete(list[namespace], name); len(list[namespace]) == 0 {
			delete(list, namespace)
		}
	}
	if k.total[namespace] == 0 {
		delete(k.total, namespace)
	}
}

// gone takes in that a policy was deleted.
func (k *keeper) gone(o any) {
	if last, unseen := o.(cache.DeletedFinalStateUnknown); unseen {
		o = last.Obj
	}
	if p, ok := o.(*networkingv1.NetworkPolicy); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.drop(p.Namespace, p.Name)
	}
}

// room says that a policy which was not kept would be by now.
func (k *keeper) room() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for namespace, list := range k.left {
		for _, weight := range list {
			if k.total[namespace]+weight <= k.limit {
				return true
			}
		}
	}
	return false
}

// Sizes in memory, roughly, in bytes: of a policy, of a peer, of a port, of a list of labels,
// and of a text beside its letters.
const (
	policyBytes = 512
	peerBytes   = 128
	portBytes   = 96
	labelsBytes = 320
	textBytes   = 16
)

// weigh guesses how many bytes a policy takes in memory.
func weigh(s *networkingv1.NetworkPolicySpec) int {
	n := policyBytes + weighSelector(&s.PodSelector)
	peers := func(list []networkingv1.NetworkPolicyPeer) {
		for i := range list {
			n += peerBytes + weighSelector(list[i].PodSelector) + weighSelector(list[i].NamespaceSelector)
			if b := list[i].IPBlock; b != nil {
				n += textBytes + len(b.CIDR)
				for _, e := range b.Except {
					n += textBytes + len(e)
				}
			}
		}
	}
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			n += portBytes
			if p := list[i].Port; p != nil {
				n += len(p.StrVal)
			}
		}
	}
	for i := range s.Ingress {
		n += portBytes
		peers(s.Ingress[i].From)
		ports(s.Ingress[i].Ports)
	}
	for i := range s.Egress {
		n += portBytes
		peers(s.Egress[i].To)
		ports(s.Egress[i].Ports)
	}
	return n
}

func weighSelector(s *metav1.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := 0
	if len(s.MatchLabels) > 0 {
		n += labelsBytes
	}
	for key, value := range s.MatchLabels {
		n += 2*textBytes + len(key) + len(value)
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		n += peerBytes + len(e.Key)
		for _, value := range e.Values {
			n += textBytes + len(value)
		}
	}
	return n
}
