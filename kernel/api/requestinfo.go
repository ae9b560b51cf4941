package api

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// asRequest is a context as a request about a resource has it when it reaches a handler:
// for parts of the kernel that ask without HTTP. The name may be empty.
func asRequest(ctx context.Context, verb string, resource schema.GroupVersionResource, namespace, name string) context.Context {
	prefix := "apis"
	if resource.Group == "" {
		prefix = "api"
	}
	return request.WithRequestInfo(request.WithNamespace(ctx, namespace), &request.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIPrefix: prefix, APIGroup: resource.Group, APIVersion: resource.Version,
		Namespace: namespace, Resource: resource.Resource, Name: name,
	})
}

// asRequestOf is asRequest of a user who was authenticated.
func asRequestOf(ctx context.Context, who user.Info, verb string, resource schema.GroupVersionResource, namespace, name string) context.Context {
	return request.WithUser(asRequest(ctx, verb, resource, namespace, name), who)
}
