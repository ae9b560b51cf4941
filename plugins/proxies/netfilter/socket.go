package netfilter

import (
	"fmt"

	nft "github.com/google/nftables"
)

// Socket is one of netfilter. Its zero value is not open yet. One goroutine uses it at a time.
type Socket struct{ conn *nft.Conn }

// Over is a socket with a connection that is open, as tests have one without a kernel.
func Over(conn *nft.Conn) Socket { return Socket{conn} }

// Conn is the connection, which is opened where there is none.
func (s *Socket) Conn() (*nft.Conn, error) {
	if s.conn == nil {
		conn, err := nft.New(nft.AsLasting())
		if err != nil {
			return nil, fmt.Errorf("open a socket of netfilter: %w", err)
		}
		s.conn = conn
	}
	return s.conn, nil
}

// Close closes it; the next use opens another.
func (s *Socket) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.CloseLasting()
	s.conn = nil
	return err
}
