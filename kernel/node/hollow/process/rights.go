package process

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/node/hollow"
)

// nodesGroup is the group of all nodes, nodeUser the user that a node is.
const nodesGroup = "system:nodes"

func nodeUser(name string) string { return "system:node:" + name }

// userRights are what the kubeconfig's user needs for nodes of which one is named.
func userRights(node, lease string) []authorizationv1.ResourceAttributes {
	rights := []authorizationv1.ResourceAttributes{
		{Verb: "impersonate", Resource: "users", Name: nodeUser(node)},
		{Verb: "impersonate", Resource: "groups", Name: nodesGroup},
	}
	for _, kind := range []string{"nodes", "pods", "services"} {
		for _, verb := range []string{"list", "watch"} {
			rights = append(rights, authorizationv1.ResourceAttributes{Verb: verb, Resource: kind})
		}
	}
	// What is created has no name yet, as RBAC sees it.
	for _, verb := range []string{"get", "update"} {
		rights = append(rights,
			authorizationv1.ResourceAttributes{Verb: verb, Resource: "configmaps", Namespace: metav1.NamespaceSystem, Name: hollow.Claims},
			authorizationv1.ResourceAttributes{Verb: verb, Group: "coordination.k8s.io", Resource: "leases", Namespace: metav1.NamespaceSystem, Name: lease})
	}
	return append(rights,
		authorizationv1.ResourceAttributes{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: corev1.NamespaceNodeLease, Name: node},
		authorizationv1.ResourceAttributes{Verb: "create", Resource: "configmaps", Namespace: metav1.NamespaceSystem},
		authorizationv1.ResourceAttributes{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: metav1.NamespaceSystem})
}

// nodeRights are what a node needs.
func nodeRights(node string) []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "nodes"},
		{Verb: "patch", Resource: "nodes", Subresource: "status", Name: node},
		{Verb: "patch", Resource: "pods", Subresource: "status"},
		{Verb: "delete", Resource: "pods"},
		{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: corev1.NamespaceNodeLease},
	}
}

// missing asks which of the rights the client's user does not have.
func missing(ctx context.Context, client kubernetes.Interface, rights []authorizationv1.ResourceAttributes) ([]string, error) {
	var lacks []string
	for _, right := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask whether this user may %s: %w", named(right), err)
		}
		if !answer.Status.Allowed {
			lacks = append(lacks, named(right))
		}
	}
	return lacks, nil
}

// named is a right in words, as "patch nodes/status".
func named(r authorizationv1.ResourceAttributes) string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" && r.Verb == "impersonate" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// mayRun says what the kubeconfig's user, or a node that it impersonates, may not do and
// has to.
func mayRun(ctx context.Context, host string, user, node kubernetes.Interface, name, lease string) error {
	lacks, err := missing(ctx, user, userRights(name, lease))
	if err != nil {
		return unreachable(host, err)
	}
	if len(lacks) > 0 {
		return fmt.Errorf("the user of the kubeconfig may not %s at %s; bind a ClusterRole with these rights to it", strings.Join(lacks, ", "), host)
	}
	if lacks, err = missing(ctx, node, nodeRights(name)); err != nil {
		return unreachable(host, fmt.Errorf("as %s: %w", nodeUser(name), err))
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%s may not %s at %s; nodes get their rights by authorization mode Node, or bind ClusterRole system:node to group %s",
			nodeUser(name), strings.Join(lacks, ", "), host, nodesGroup)
	}
	return nil
}

// unreachable says which server did not answer as it should, and what to look at.
func unreachable(host string, err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("API server %s does not accept the credentials of the kubeconfig: %w", host, err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return fmt.Errorf("API server %s: %w", host, err)
	}
	return fmt.Errorf("API server %s was not reached: %w; is it the server that the kubeconfig means, and does it run?", host, err)
}
