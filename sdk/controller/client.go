package controller

import (
	"context"

	"google.golang.org/grpc"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Spec names one controller that shall run.
type Spec struct {
	Name   string
	Socket string // the API socket of its own identity
	Config []byte // JSON; empty means defaults
}

// State is what a process says of one of its controllers.
type State struct {
	Name     string
	Running  bool
	Message  string // why not
	Restarts uint64
}

// Client starts and stops the controllers of one process.
type Client struct{ controllers contractv1.ControllersClient }

// NewClient returns a client over a connection to the process.
func NewClient(conn grpc.ClientConnInterface) *Client {
	return &Client{controllers: contractv1.NewControllersClient(conn)}
}

// Start makes exactly the given controllers run; socket is the API socket of
// the bundle's identity.
func (c *Client) Start(ctx context.Context, socket, nodeName string, specs []Spec) error {
	req := &contractv1.ControllerStart{Socket: socket, NodeName: nodeName}
	for _, s := range specs {
		req.Controllers = append(req.Controllers, &contractv1.ControllerSpec{Name: s.Name, Socket: s.Socket, Config: s.Config})
	}
	_, err := c.controllers.Start(ctx, req)
	return err
}

// Status returns the state of every controller that was started.
func (c *Client) Status(ctx context.Context) ([]State, error) {
	resp, err := c.controllers.Status(ctx, &contractv1.ControllerStatusRequest{})
	if err != nil {
		return nil, err
	}
	var states []State
	for _, s := range resp.GetControllers() {
		states = append(states, State{Name: s.GetName(), Running: s.GetRunning(), Message: s.GetMessage(), Restarts: s.GetRestarts()})
	}
	return states, nil
}
