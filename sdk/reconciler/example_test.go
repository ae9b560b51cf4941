//go:build !wasip1

package reconciler_test

import (
	"fmt"
	"time"

	"pintle.dev/pintle/sdk/reconciler"
)

// A controller is a function of a key. HostOver puts a fake API behind it.
func ExampleHostOver() {
	services := reconciler.Resource{Version: "v1", Resource: "services"}
	reconcile := func(h *reconciler.Host, key reconciler.Key) (reconciler.Result, error) {
		var service struct{ Spec struct{ ClusterIP string } }
		err := h.Get(services, key.Namespace, key.Name, &service)
		if reconciler.IsNotFound(err) {
			return reconciler.Result{}, nil // it is gone
		}
		if err == nil && service.Spec.ClusterIP == "" {
			return reconciler.Result{RequeueAfter: time.Second}, nil // later
		}
		return reconciler.Result{}, err
	}
	h := reconciler.HostOver(func(function string, request []byte) []byte {
		fmt.Println(function, string(request))
		return []byte(`{"object":{"spec":{}}}`)
	})
	fmt.Println(reconcile(h, reconciler.Key{Namespace: "default", Name: "web"}))
	// Output:
	// get {"resource":"v1/services","namespace":"default","name":"web"}
	// {1s} <nil>
}
