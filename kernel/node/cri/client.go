package cri

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// NodeMetadata is the gRPC metadata key that names the calling agent's node.
const NodeMetadata = "pintle-node"

// AllNodes as the node's name asks the hollow runtime for the events of all nodes. Each names its node in the
// annotation NodeMetadata of the pod sandbox's status.
const AllNodes = "*"

const (
	callTimeout    = 2 * time.Minute
	sandboxTimeout = 4 * time.Minute // as the kubelet: creating a sandbox may take a network set-up and an image pull
	maxMessage     = 16 << 20
)

// Client is a runtime and an image service over one connection, in the name of one node.
type Client struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient

	own *grpc.ClientConn
	// PreferIPv6: the node's first address is of IPv6, and so is the first of each pod. It is set before anything is asked.
	PreferIPv6 bool
}

// New speaks over a connection that its owner closes.
func New(conn grpc.ClientConnInterface, nodeName string) *Client {
	scoped := &scopedConn{conn: conn, node: nodeName}
	return &Client{
		RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(scoped),
		ImageServiceClient:   runtimeapi.NewImageServiceClient(scoped),
	}
}

// Connect prepares a connection to a unix socket; the socket is dialled by the first call.
func Connect(endpoint string) (*grpc.ClientConn, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "unix://" + endpoint
	}
	conn, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to container runtime at %s: %w", endpoint, err)
	}
	return conn, nil
}

// Dial connects to a unix socket and owns the connection.
func Dial(endpoint, nodeName string) (*Client, error) {
	conn, err := Connect(endpoint)
	if err != nil {
		return nil, err
	}
	c := New(conn, nodeName)
	c.own = conn
	return c, nil
}

// Close closes the connection if the client made it.
func (c *Client) Close() error {
	if c.own == nil {
		return nil
	}
	return c.own.Close()
}

// Stop stops a container: the runtime waits grace before it kills; the call is given ten seconds more.
func (c *Client) Stop(ctx context.Context, containerID string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+10*time.Second)
	defer cancel()
	_, err := c.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: containerID, Timeout: int64(grace / time.Second)})
	if IsNotFound(err) {
		return nil
	}
	return err
}

// IsNotFound tells that the runtime does not know the sandbox, container or image.
func IsNotFound(err error) bool { return err != nil && status.Code(err) == codes.NotFound }

// Message is the runtime's own words, without gRPC's frame.
func Message(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// scopedConn adds the node's name to each call, a deadline to unary calls that have none, and patience to those that
// should not be cut short.
type scopedConn struct {
	conn grpc.ClientConnInterface
	node string
}

func (s *scopedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = metadata.AppendToOutgoingContext(ctx, NodeMetadata, s.node)
	_, limited := ctx.Deadline()
	if indivisible(method) {
		var cancel context.CancelFunc
		var err error
		if ctx, cancel, err = outlasting(ctx, patience); err != nil {
			return err
		}
		defer cancel()
	}
	if !limited {
		timeout := callTimeout
		switch {
		case strings.HasSuffix(method, "/PullImage"):
			timeout = 0 // a pull takes as long as it takes; the runtime ends it when no bytes arrive
		case strings.HasSuffix(method, "/RunPodSandbox"):
			timeout = sandboxTimeout
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
	}
	return s.conn.Invoke(ctx, method, args, reply, opts...)
}

func (s *scopedConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.conn.NewStream(metadata.AppendToOutgoingContext(ctx, NodeMetadata, s.node), desc, method, opts...)
}
