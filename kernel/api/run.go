package api

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strconv"
)

// New checks the configuration, makes the certificates if there are none,
// builds the stores and takes the port, so that a fault of any of them is
// found before anything runs.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return nil, errors.New("api server: not built")
}

// Run serves until ctx is done and returns when every request has ended.
func (s *Server) Run(ctx context.Context) error {
	return s.generic.PrepareRun().RunWithContext(ctx)
}

// Port is the TCP port served.
func (s *Server) Port() int { return s.port }

// URL is where clients on this machine reach the server.
func (s *Server) URL() string {
	return "https://" + net.JoinHostPort(s.cfg.BindAddress, strconv.Itoa(s.port))
}

// AdminKubeconfig is the path of the administrator's kubeconfig.
func (s *Server) AdminKubeconfig() string { return filepath.Join(s.cfg.DataDir, "admin.kubeconfig") }
