// The process plugin of the package's tests that serves nothing of the scheduler's,
// as a bundle of controllers does.
package main

import (
	"errors"

	"google.golang.org/grpc"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

type reviewer struct{ transport.Service }

func (reviewer) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterAdmissionsServer(r, contractv1.UnimplementedAdmissionsServer{})
}

func (reviewer) Describe() []*contractv1.PluginDescription {
	return []*contractv1.PluginDescription{{
		Name: "reviewer", Kind: sdk.KindAdmission, Phase: "validating",
		Rules: []*contractv1.AdmissionRule{{Operations: []string{"CREATE"}, Resources: []string{"v1/pods"}}},
	}}
}

func (reviewer) Configure(_ string, config []byte) error {
	if string(config) == "1" {
		return errors.New("nobody configures a 1")
	}
	return nil
}

func main() { transport.Serve(reviewer{sdk.Service(sdk.NewGuest())}) }
