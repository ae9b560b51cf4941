package networkpolicy

import (
	"crypto/rand"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// largeSubject is what of a policy's own selector is kept where its rules are not, in bytes.
const largeSubject = 4096

// keeper bounds what is kept of the policies of each namespace. Of one for which there is no
// room the subject and the directions are kept, by which its pods are isolated.
type keeper struct {
	limit int    // bytes, roughly, a namespace
	mark  string // on a policy whose rules are not kept; users cannot know it

	mu    sync.Mutex
	kept  map[string]map[string]entry // those kept whole, by namespace and name
	left  map[string]map[string]entry // those that were not
	total map[string]int              // bytes of kept, by namespace
}

// entry is a policy that was counted.
type entry struct {
	uid    types.UID
	weight int // bytes
}

func newKeeper(limit int) *keeper {
	return &keeper{limit: limit, mark: rand.Text(), kept: map[string]map[string]entry{}, left: map[string]map[string]entry{}, total: map[string]int{}}
}

// slim leaves of a policy what there is room for. It is a cache.TransformFunc, which may be
// given what it returned before.
func (k *keeper) slim(o any) (any, error) {
	p, ok := o.(*networkingv1.NetworkPolicy)
	if !ok {
		return o, nil
	}
	if p.Annotations[program.NotKept] == k.mark {
		return o, nil
	}
	out := &networkingv1.NetworkPolicy{ObjectMeta: slimMeta(p.ObjectMeta), Spec: p.Spec}
	if !k.take(p, weigh(&p.Spec)) {
		out.Annotations = map[string]string{program.NotKept: k.mark}
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

func (k *keeper) take(p *networkingv1.NetworkPolicy, weight int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	namespace, name := p.Namespace, p.Name
	k.drop(namespace, name)
	list, fits := k.kept, k.total[namespace]+weight <= k.limit
	if fits {
		k.total[namespace] += weight
	} else {
		list = k.left
	}
	if list[namespace] == nil {
		list[namespace] = map[string]entry{}
	}
	list[namespace][name] = entry{p.UID, weight}
	return fits
}

// drop forgets one. The caller holds mu.
func (k *keeper) drop(namespace, name string) {
	k.total[namespace] -= k.kept[namespace][name].weight
	for _, list := range []map[string]map[string]entry{k.kept, k.left} {
		if delete(list[namespace], name); len(list[namespace]) == 0 {
			delete(list, namespace)
		}
	}
	if k.total[namespace] == 0 {
		delete(k.total, namespace)
	}
}

// gone takes in that a policy was deleted. It comes late: another one of the name may be
// counted by then, which stays so.
func (k *keeper) gone(o any) {
	if last, unseen := o.(cache.DeletedFinalStateUnknown); unseen {
		o = last.Obj
	}
	if p, ok := o.(*networkingv1.NetworkPolicy); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		counted, whole := k.kept[p.Namespace][p.Name]
		if !whole {
			counted = k.left[p.Namespace][p.Name]
		}
		if counted.uid == p.UID {
			k.drop(p.Namespace, p.Name)
		}
	}
}

// room says that a policy which was not kept would be by now.
func (k *keeper) room() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for namespace, list := range k.left {
		for _, e := range list {
			if k.total[namespace]+e.weight <= k.limit {
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
