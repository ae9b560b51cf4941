package main

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageServer serves CRI's ImageService: every image exists, and a pull takes
// no time and no bytes.
type imageServer struct {
	runtimev1.UnimplementedImageServiceServer
	world *world
}

// hollowImageBytes is the size that every hollow image claims, so that image
// locality has something to weigh.
const hollowImageBytes = 10 << 20

func (i *imageServer) PullImage(ctx context.Context, req *runtimev1.PullImageRequest) (*runtimev1.PullImageResponse, error) {
	name := req.GetImage().GetImage()
	if name == "" {
		return nil, status.Error(codes.InvalidArgument, "no image is named")
	}
	i.world.mu.Lock()
	defer i.world.mu.Unlock()
	n := i.world.of(ctx)
	if n.images == nil {
		n.images = map[string]*runtimev1.Image{}
	}
	n.images[name] = &runtimev1.Image{Id: name, RepoTags: []string{name}, Size: hollowImageBytes, Spec: &runtimev1.ImageSpec{Image: name}}
	return &runtimev1.PullImageResponse{ImageRef: name}, nil
}

func (i *imageServer) ImageStatus(ctx context.Context, req *runtimev1.ImageStatusRequest) (*runtimev1.ImageStatusResponse, error) {
	i.world.mu.Lock()
	defer i.world.mu.Unlock()
	return &runtimev1.ImageStatusResponse{Image: i.world.of(ctx).images[req.GetImage().GetImage()]}, nil
}

func (i *imageServer) ListImages(ctx context.Context, req *runtimev1.ListImagesRequest) (*runtimev1.ListImagesResponse, error) {
	i.world.mu.Lock()
	defer i.world.mu.Unlock()
	resp := &runtimev1.ListImagesResponse{}
	wanted := req.GetFilter().GetImage().GetImage()
	for name, image := range i.world.of(ctx).images {
		if wanted == "" || wanted == name {
			resp.Images = append(resp.Images, image)
		}
	}
	return resp, nil
}

func (i *imageServer) RemoveImage(ctx context.Context, req *runtimev1.RemoveImageRequest) (*runtimev1.RemoveImageResponse, error) {
	i.world.mu.Lock()
	defer i.world.mu.Unlock()
	delete(i.world.of(ctx).images, req.GetImage().GetImage())
	return &runtimev1.RemoveImageResponse{}, nil
}

func (i *imageServer) ImageFsInfo(context.Context, *runtimev1.ImageFsInfoRequest) (*runtimev1.ImageFsInfoResponse, error) {
	fs := &runtimev1.FilesystemUsage{
		Timestamp: time.Now().UnixNano(), FsId: &runtimev1.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes: &runtimev1.UInt64Value{}, InodesUsed: &runtimev1.UInt64Value{},
	}
	return &runtimev1.ImageFsInfoResponse{ImageFilesystems: []*runtimev1.FilesystemUsage{fs}, ContainerFilesystems: []*runtimev1.FilesystemUsage{fs}}, nil
}
