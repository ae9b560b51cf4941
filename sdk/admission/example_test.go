package admission_test

import (
	"fmt"

	"pintle.dev/pintle/sdk/admission"
)

// A mutator changes what shall be stored, with JSON pointers as in a JSON patch.
// Ask asks it as the kernel does.
func ExampleMutator() {
	pull := admission.Mutator{
		Name:  "always-pull",
		Rules: []admission.Rule{{Operations: []admission.Operation{admission.Create}, Resources: []string{"v1/pods"}}},
		Mutate: func(r *admission.Request) error {
			var pod struct {
				Spec struct{ Containers []struct{ Name string } }
			}
			if err := r.Into(&pod); err != nil {
				return err
			}
			for i := range pod.Spec.Containers {
				r.Set(fmt.Sprintf("/spec/containers/%d/imagePullPolicy", i), "Always")
			}
			return nil
		},
	}
	outcome, err := admission.Ask(pull, admission.Request{Operation: admission.Create, Object: []byte(`{"spec":{"containers":[{"name":"c"}]}}`)})
	fmt.Println(outcome.Allowed, string(outcome.Patch), err)
	// Output: true [{"op":"add","path":"/spec/containers/0/imagePullPolicy","value":"Always"}] <nil>
}
