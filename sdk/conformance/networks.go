package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// podNetwork asks a network what changes nothing on a machine.
func podNetwork(ctx context.Context, conn grpc.ClientConnInterface, name, none string) error {
	client := contractv1.NewNetworksClient(conn)
	probed, err := client.Probe(ctx, &contractv1.NetworkProbe{Name: name})
	if err != nil {
		return fmt.Errorf("%s: probe: %w; a network that cannot run says why in the answer", name, err)
	}
	if !probed.GetUsable() && probed.GetReason() == "" {
		return fmt.Errorf("%s cannot run and does not say why", name)
	}
	if st, err := client.Status(ctx, &contractv1.NetworkStatusRequest{Name: name}); broken(err) || st.GetReady() {
		return fmt.Errorf("%s: status before a start: ready %v, %w", name, st.GetReady(), err)
	}
	if _, err := client.Apply(ctx, &contractv1.NetworkApply{Name: name, Diff: &contractv1.NetworkDiff{Generation: 1, Reset_: true}}); err == nil || broken(err) {
		return fmt.Errorf("%s: nodes before a start: %v; want an error, and the process goes on", name, err)
	}
	if _, err := client.Start(ctx, &contractv1.NetworkStart{Name: none}); err == nil {
		return fmt.Errorf("a network %s, which is not there, is started", none)
	}
	return nil
}
