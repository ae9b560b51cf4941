package dynamic

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
)

// maxKnown bounds the kinds of requests that are remembered.
const maxKnown = 64

// request is a kind of requests.
type request struct {
	operation             admission.Operation
	resource, subresource string
}

// asked remembers which kinds of requests something configured may be about.
type asked struct {
	generation atomic.Uint64 // of what is configured
	mu         sync.RWMutex
	of         uint64
	known      map[request]bool
}

// changed is called when something configured has.
func (k *asked) changed() { k.generation.Add(1) }

// get asks find unless it is known.
func (k *asked) get(r request, find func() bool) bool {
	generation := k.generation.Load()
	k.mu.RLock()
	found, ok := k.known[r]
	ok = ok && k.of == generation
	k.mu.RUnlock()
	if ok {
		return found
	}
	found = find()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of != generation || len(k.known) >= maxKnown {
		k.of, k.known = generation, nil
	}
	if k.known == nil {
		k.known = map[request]bool{}
	}
	k.known[r] = found
	return found
}

// Asked reports whether a webhook or a policy may be asked about such requests. It
// says yes where only names, labels, the group or the version would tell, and while it
// is not known what is configured.
func (p *Plugins) Asked(a admission.Attributes) bool {
	used := false
	for _, plugin := range p.list {
		if !plugin.synced() {
			return true
		}
		used = used || plugin.inUse()
	}
	if !used {
		return false
	}
	r := request{a.GetOperation(), a.GetResource().Resource, a.GetSubresource()}
	return p.asked.get(r, func() bool {
		return slices.ContainsFunc(p.list, func(plugin *Plugin) bool {
			return plugin.Handles(r.operation) && slices.ContainsFunc(plugin.configured[0].GetStore().List(), func(obj any) bool { return r.matches(obj) })
		})
	})
}

func (r request) matches(obj any) bool {
	switch o := obj.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		return slices.ContainsFunc(o.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return slices.ContainsFunc(w.Rules, r.matchesRule) })
	case *admissionv1.MutatingWebhookConfiguration:
		return slices.ContainsFunc(o.Webhooks, func(w admissionv1.MutatingWebhook) bool { return slices.ContainsFunc(w.Rules, r.matchesRule) })
	case *admissionv1.ValidatingAdmissionPolicy:
		return r.matchesAny(o.Spec.MatchConstraints)
	case *admissionv1.MutatingAdmissionPolicy:
		return r.matchesAny(o.Spec.MatchConstraints)
	}
	return true
}

func (r request) matchesAny(m *admissionv1.MatchResources) bool {
	return m == nil || slices.ContainsFunc(m.ResourceRules, func(n admissionv1.NamedRuleWithOperations) bool { return r.matchesRule(n.RuleWithOperations) })
}

func (r request) matchesRule(rule admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rule.Operations, func(o admissionv1.OperationType) bool {
		return o == admissionv1.OperationAll || string(o) == string(r.operation)
	}) && slices.ContainsFunc(rule.Resources, func(name string) bool {
		resource, sub, _ := strings.Cut(name, "/")
		return (resource == "*" || resource == r.resource) && (sub == "*" || sub == r.subresource)
	})
}
