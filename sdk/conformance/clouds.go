package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// cloudProvider: a cloud provider is started as a controller is. It runs only then, says
// how it is while the API does not answer, and ends when nobody wants it.
func cloudProvider(ctx context.Context, conn grpc.ClientConnInterface, name, none string) error {
	client := contractv1.NewControllersClient(conn)
	state := func() (*contractv1.ControllerState, error) {
		st, err := client.Status(ctx, &contractv1.ControllerStatusRequest{})
		if err != nil {
			return nil, fmt.Errorf("%s: status: %w", name, err)
		}
		for _, s := range st.GetControllers() {
			if s.GetName() == name {
				return s, nil
			}
		}
		return nil, nil
	}
	if s, err := state(); err != nil || s != nil {
		return fmt.Errorf("%s is in the status before it was started, want nothing: %v, %v", name, s, err)
	}
	if _, err := client.Start(ctx, &contractv1.ControllerStart{Socket: "/nonexistent", Controllers: []*contractv1.ControllerSpec{{Name: none, Socket: "/nonexistent"}}}); err == nil || broken(err) {
		return fmt.Errorf("a cloud provider %s, which is not there, is started: %v", none, err)
	}
	if _, err := client.Start(ctx, &contractv1.ControllerStart{Socket: "/nonexistent", Controllers: []*contractv1.ControllerSpec{{Name: name, Socket: "/nonexistent"}}}); err != nil {
		return fmt.Errorf("%s: start, while the API does not answer: %w; want it to start and to wait", name, err)
	}
	if s, err := state(); err != nil || s == nil {
		return fmt.Errorf("%s was started and its status is %v, %v", name, s, err)
	}
	if _, err := client.Start(ctx, &contractv1.ControllerStart{Socket: "/nonexistent"}); err != nil {
		return fmt.Errorf("%s: a start of none: %w; want it to end", name, err)
	}
	if s, err := state(); err != nil || s != nil {
		return fmt.Errorf("%s is in the status when it was ended: %v, %v", name, s, err)
	}
	return nil
}
