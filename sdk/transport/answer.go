//go:build !wasip1

package transport

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// answerer answers questions by what was registered with a server of gRPC.
type answerer struct {
	grpc.ServiceRegistrar
	handlers [len(methods)]func(body []byte) (proto.Message, error)
}

// RegisterService registers a service, and takes note of the methods that are
// questions.
func (a *answerer) RegisterService(service *grpc.ServiceDesc, server any) {
	a.ServiceRegistrar.RegisterService(service, server)
	for q := range methods {
		for i := range service.Methods {
			m := &service.Methods[i]
			if methods[q] != "/"+service.ServiceName+"/"+m.MethodName {
				continue
			}
			a.handlers[q] = func(body []byte) (proto.Message, error) {
				resp, err := m.Handler(server, context.Background(), func(req any) error {
					if err := proto.Unmarshal(body, req.(proto.Message)); err != nil {
						return status.Error(codes.Internal, err.Error())
					}
					return nil
				}, nil)
				if err != nil {
					return nil, err
				}
				return resp.(proto.Message), nil
			}
		}
	}
}

// answer answers one question.
func (a *answerer) answer(q frame) (proto.Message, error) {
	if q.what >= uint32(len(methods)) || a.handlers[q.what] == nil {
		return nil, status.Errorf(codes.Unimplemented, "no question %d", q.what)
	}
	return a.handlers[q.what](q.body)
}

// serve answers questions, one after the other, until the kernel closes its end.
func (a *answerer) serve(socket io.ReadWriteCloser) error {
	defer socket.Close()
	in := frameReader{from: socket}
	var buffer []byte
	for {
		q, err := in.next(MaxMessageBytes)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out := beginFrame(buffer)
		resp, err := a.answer(q)
		if err == nil {
			out, err = proto.MarshalOptions{}.MarshalAppend(out, resp)
		}
		if err != nil {
			out = append(out[:frameHeader], status.Convert(err).Message()...)
			out = out[:min(len(out), frameHeader+maxErrorBytes)]
		}
		endFrame(out, q.number, uint32(status.Code(err)))
		if _, err := socket.Write(out); err != nil {
			return err
		}
		if buffer = out; cap(buffer) > keptFrame {
			buffer = nil
		}
	}
}
