package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"pintle.dev/pintle/kernel/api/auth/rbac"
)

const (
	userPrefix = "system:node:"
	// patience is how long a missing relation is looked for.
	patience = time.Second
)

// Authorizer implements authorizer.Authorizer.
type Authorizer struct {
	pods     *pods
	claims   corelisters.PersistentVolumeClaimLister
	rules    []rbacv1.PolicyRule
	patience time.Duration
}

var _ authorizer.Authorizer = (*Authorizer)(nil)

// New makes an authorizer that knows no pod: Follow tells it of them.
func New(claims coreinformers.PersistentVolumeClaimInformer) *Authorizer {
	return &Authorizer{pods: newPods(), claims: claims.Lister(), rules: rbac.NodeRules(), patience: patience}
}

// Name returns the node that a user is, and whether the user is one at all.
func Name(who user.Info) (string, bool) {
	if who == nil || !strings.HasPrefix(who.GetName(), userPrefix) || !slices.Contains(who.GetGroups(), user.NodesGroup) {
		return "", false
	}
	return strings.TrimPrefix(who.GetName(), userPrefix), true
}

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	node, ok := Name(attrs.GetUser())
	if !ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if node == "" {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("unknown node for user %q", attrs.GetUser().GetName()), nil
	}
	if !rbac.RulesAllow(attrs, a.rules) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if !attrs.IsResourceRequest() {
		return authorizer.DecisionAllow, "", nil
	}
	if reason := a.narrow(ctx, node, attrs); reason != "" {
		return authorizer.DecisionNoOpinion, reason, nil
	}
	return authorizer.DecisionAllow, "", nil
}

// narrow says why a request that the rules allow is none of the node's; "" if
// it is.
func (a *Authorizer) narrow(ctx context.Context, node string, attrs authorizer.Attributes) string {
	name, namespace := attrs.GetName(), attrs.GetNamespace()
	switch attrs.GetAPIGroup() + "/" + attrs.GetResource() {
	case "/secrets":
		return a.read(ctx, node, attrs, func(p *relations) bool { return p.namespace == namespace && slices.Contains(p.secrets, name) })
	case "/configmaps":
		return a.read(ctx, node, attrs, func(p *relations) bool { return p.namespace == namespace && slices.Contains(p.configMaps, name) })
	case "/persistentvolumeclaims":
		return a.related(ctx, node, attrs, func(p *relations) bool {
			return p.namespace == namespace && slices.Contains(p.claims, name)
		})
	case "/persistentvolumes":
		return a.related(ctx, node, attrs, func(p *relations) bool { return a.claimsVolume(p, name) })
	case "/serviceaccounts":
		return a.related(ctx, node, attrs, func(p *relations) bool {
			return p.namespace == namespace && p.account == name && !p.mirror
		})
	case "/nodes":
		if reads(attrs) && name != node {
			if name == "" {
				return fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
			}
			return fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, name)
		}
	case "/pods":
		return a.pod(ctx, node, attrs)
	case "coordination.k8s.io/leases":
		if namespace != corev1.NamespaceNodeLease {
			return fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
		}
		// The name of a new one stands in its body, which admission looks at.
		if attrs.GetVerb() != "create" && name != node {
			return "can only access node lease with the same name as the requesting node"
		}
	case "storage.k8s.io/csinodes":
		if attrs.GetVerb() != "create" && name != node {
			return "can only access CSINode with the same name as the requesting node"
		}
	case "resource.k8s.io/resourceslices":
		if !selects(node, attrs) {
			return "can only delete resource slices with spec.nodeName field selector"
		}
	case "resource.k8s.io/resourceclaims":
		return a.related(ctx, node, attrs, func(p *relations) bool {
			return p.namespace == namespace && slices.Contains(p.deviceClaims, name)
		})
	case "storage.k8s.io/volumeattachments":
		return fmt.Sprintf("no relationship found between node '%s' and this object", node)
	}
	return ""
}

func reads(attrs authorizer.Attributes) bool {
	return attrs.GetVerb() == "get" || attrs.GetVerb() == "list" || attrs.GetVerb() == "watch"
}

// pod: the writes, status and eviction are admission's matter.
func (a *Authorizer) pod(ctx context.Context, node string, attrs authorizer.Attributes) string {
	if attrs.GetSubresource() != "" || !reads(attrs) {
		return ""
	}
	if attrs.GetVerb() != "get" {
		if selects(node, attrs) {
			return ""
		}
		return "can only list/watch pods with spec.nodeName field selector"
	}
	return a.related(ctx, node, attrs, func(p *relations) bool {
		return p.namespace == attrs.GetNamespace() && p.name == attrs.GetName()
	})
}

// selects says whether a request is for what has the node in spec.nodeName.
func selects(node string, attrs authorizer.Attributes) bool {
	selected, err := attrs.GetFieldSelector()
	return err == nil && slices.ContainsFunc(selected, func(r fields.Requirement) bool {
		return r.Field == "spec.nodeName" && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) && r.Value == node
	})
}

// read is related for what is listed and watched too, one object at a time.
func (a *Authorizer) read(ctx context.Context, node string, attrs authorizer.Attributes, relates func(*relations) bool) string {
	if attrs.GetNamespace() == "" {
		return "can only read namespaced object of this type"
	}
	return a.related(ctx, node, attrs, relates)
}

// related says why no pod of the node relates to the object; "" when one does.
func (a *Authorizer) related(ctx context.Context, node string, attrs authorizer.Attributes, relates func(*relations) bool) string {
	if attrs.GetName() == "" {
		return "No Object name found"
	}
	until := time.Now().Add(a.patience)
	for wait := 2 * time.Millisecond; ; wait *= 2 {
		if a.pods.any(node, relates) {
			return ""
		}
		// As long as not all pods are known, nothing speaks against a relation.
		left := time.Until(until)
		if !a.pods.synced() && left < a.patience {
			left = a.patience
			until = time.Now().Add(left)
		}
		if left <= 0 {
			return fmt.Sprintf("no relationship found between node '%s' and this object", node)
		} else if wait > left {
			wait = left
		}
		select {
		case <-ctx.Done():
			return fmt.Sprintf("no relationship found between node '%s' and this object", node)
		case <-time.After(wait):
		}
	}
}

func (a *Authorizer) claimsVolume(pod *relations, volume string) bool {
	for _, name := range pod.claims {
		if claim, err := a.claims.PersistentVolumeClaims(pod.namespace).Get(name); err == nil && claim.Spec.VolumeName == volume {
			return true
		}
	}
	return false
}

// ConditionsAwareAuthorize implements authorizer.Authorizer without conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attrs))
}

// EvaluateConditions implements authorizer.Authorizer; there are none.
func (a *Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

var errRules = errors.New("node authorizer does not support user rule resolution")

// RulesFor implements authorizer.RuleResolver: what a node may do follows from
// its pods and is not a list.
func (a *Authorizer) RulesFor(_ context.Context, who user.Info, _ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if _, ok := Name(who); ok {
		return nil, nil, true, errRules
	}
	return nil, nil, false, nil
}
