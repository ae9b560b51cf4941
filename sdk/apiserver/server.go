package apiserver

import (
	"context"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Server names an API server and how one is made.
type Server struct {
	// Name of the plugin, as in the manifest.
	Name string
	// New builds the server. It starts nothing. It is called again where the
	// configuration has changed.
	New func(c *Context) (Instance, error)
}

// Instance is a built server.
type Instance struct {
	// Handler serves the paths of the group versions, such as
	// /apis/notes.example.com/v1, and /openapi/v3 below it if it has any. UserOf of a
	// request's context says who asks.
	Handler http.Handler
	// Run works beside the handler until ctx ends, and returns when its goroutines have
	// ended. Nil: there is nothing to do. Where it returns before, the server is ended
	// and built anew, with back-off.
	Run func(ctx context.Context) error
}

// Context is what a server works with.
type Context struct {
	Name   string
	Config []byte // JSON; empty means defaults
	Logger *slog.Logger
	// GroupVersions are those that the kernel sends requests for, as the manifest says.
	GroupVersions []schema.GroupVersion

	// RESTConfig speaks with the plugin's own identity; the server may change it. No
	// client-side rate limit is set.
	RESTConfig *rest.Config
	// Client is a typed client over RESTConfig.
	Client kubernetes.Interface
}
