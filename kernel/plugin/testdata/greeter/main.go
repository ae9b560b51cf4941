// A controller that keeps a ConfigMap in each namespace, and misbehaves over
// namespaces of certain names.
package main

import (
	"encoding/json"
	"errors"
	"time"

	"pintle.dev/pintle/sdk/reconciler"
)

var (
	namespaces = reconciler.Resource{Version: "v1", Resource: "namespaces"}
	configMaps = reconciler.Resource{Version: "v1", Resource: "configmaps"}
)

// text is what greetings say before the namespace; configured.
var text = "hello"

// rounds counts the calls over the namespace again.
var rounds int

func reconcile(h *reconciler.Host, key reconciler.Key) (reconciler.Result, error) {
	var ns struct {
		Metadata struct{ UID string }
	}
	if err := h.Get(namespaces, "", key.Name, &ns); err != nil {
		if reconciler.IsNotFound(err) {
			err = nil
		}
		return reconciler.Result{}, err
	}
	switch key.Name {
	case "loops":
		for {
			time.Now()
		}
	case "panics":
		panic("over " + key.Name)
	case "fails":
		return reconciler.Result{}, errors.New("not yet")
	case "again":
		if rounds++; rounds < 3 {
			return reconciler.Result{RequeueAfter: time.Millisecond}, nil
		}
	}
	h.Info("greeting", "namespace", key.Name)
	greeting := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "greeting"},
		"data":     map[string]any{"text": text + ", " + key.Name},
	}
	err := h.Create(configMaps, key.Name, greeting, nil)
	if reconciler.IsAlreadyExists(err) {
		err = nil
	}
	return reconciler.Result{}, err
}

func init() {
	reconciler.Register(reconciler.Controller{
		Name: "greeter", For: namespaces, Owns: []reconciler.Resource{configMaps}, Reconcile: reconcile,
		Configure: func(config []byte) error {
			var c struct {
				Text string
				Loud bool
			}
			if err := json.Unmarshal(config, &c); err != nil {
				return err
			}
			text = c.Text
			if c.Loud {
				return errors.New("nobody shouts here")
			}
			return nil
		},
	})
}

func main() { reconciler.Serve() }
