// The process plugin of the package's tests that was built before Evaluate was
// in the contract, and that hangs when it is told of a node named hang.
package main

import (
	"context"

	"google.golang.org/grpc"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/transport"
)

func init() {
	sdk.Register(sdk.Predicate{Name: "NotRed", Filter: func(r *sdk.Request) sdk.Verdict {
		if r.Node.Labels["color"] == "red" {
			return sdk.Unfit("node(s) were red")
		}
		return sdk.Fits()
	}})
	sdk.Register(sdk.Priority{Name: "Flat", Score: func(*sdk.Request) int64 { return 4 }})
}

// plain hides the calls that came later.
type plain struct {
	transport.Service
	contractv1.SchedulingServer
}

func (p plain) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterSchedulingServer(r, old{all: p})
}

type old struct {
	contractv1.UnimplementedSchedulingServer
	all plain
}

func (o old) Apply(ctx context.Context, req *contractv1.ApplyRequest) (*contractv1.ApplyResponse, error) {
	for _, op := range req.GetDelta().GetOperations() {
		if op.GetNodeSet().GetNode().GetName() == "hang" {
			select {}
		}
	}
	return o.all.SchedulingServer.Apply(ctx, req)
}

func (o old) Filter(ctx context.Context, req *contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
	return o.all.SchedulingServer.Filter(ctx, req)
}

func (o old) Score(ctx context.Context, req *contractv1.ScoreRequest) (*contractv1.ScoreResponse, error) {
	return o.all.SchedulingServer.Score(ctx, req)
}

func main() {
	s := sdk.Service(sdk.NewGuest())
	transport.Serve(plain{Service: s, SchedulingServer: s.(contractv1.SchedulingServer)})
}
