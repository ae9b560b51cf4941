package api

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"pintle.dev/pintle/kernel/api/resources/resource"
)

// deviceAccess answers what claims of devices ask. The authorizer is made later than
// the kinds.
func (s *Server) deviceAccess() resource.Access {
	return resource.Access{
		Namespace: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return get[*corev1.Namespace](ctx, s, corev1.Resource("namespaces"), "", name)
		},
		Authorize: func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			return s.authz.Authorize(ctx, a)
		},
	}
}
