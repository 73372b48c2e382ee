#!/usr/bin/env python3
"""Writes tests/reference/mask_rcnn_*.safetensors: three training steps and a detection of a small torchvision MaskRCNN
in f64, for tests/nn/mask_rcnn_test.cpp.

    pip install torch torchvision safetensors numpy        # once; written with torch 2.15 and torchvision 0.29
    scripts/reference/mask_rcnn.py

Samplers take all anchors and all proposals, so that nothing is random. mask_rcnn_initial: parameters and buffers by
torchvision's names. mask_rcnn_steps: images u8 [3, 2, 3, 64, 96] (x / 64 - 2 is the input), boxes [3, 2, 3, 4], labels
[3, 2, 3] (0: no object), masks u8 [3, 2, 3, 64, 96], losses [3, 5] (objectness, rpn_box, classifier, box, mask);
gradient/NAME of the first total, trained/NAME. Of the trained model's detections in the first images, D places each:
found/boxes, found/labels (0: none), found/scores, found/masks [2, D, 28, 28], found/pasted u8 [2, D, 64, 96]. SGD: rate
0.01, momentum 0.9.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.ops import MultiScaleRoIAlign
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

STEPS, BATCH, OBJECTS, HEIGHT, WIDTH, CLASSES = 3, 2, 3, 64, 96, 4
BODY, PYRAMID, HIDDEN, PROPOSALS, DETECTIONS = 4, 8, 16, 450, 20
LOSSES = ["loss_objectness", "loss_rpn_box_reg", "loss_classifier", "loss_box_reg", "loss_mask"]


class SmallResNet(ResNet):
    """A ResNet whose first stage has BODY channels in place of 64."""

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        if planes == 64:
            self.inplanes = BODY
            self.conv1 = nn.Conv2d(3, BODY, 7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(BODY)
        return super()._make_layer(block, planes * BODY // 64, blocks, stride, dilate)


def make_model():
    body = SmallResNet(BasicBlock, [1, 1, 1, 1])
    layers = {f"layer{i + 1}": str(i) for i in range(4)}
    backbone = BackboneWithFPN(body, layers, [BODY << i for i in range(4)], PYRAMID, LastLevelMaxPool())
    anchors = AnchorGenerator(sizes=((8,), (16,), (32,), (64,), (128,)), aspect_ratios=((0.5, 1.0, 2.0),) * 5)
    many = 10**6
    pools = [MultiScaleRoIAlign(["0", "1", "2", "3"], size, 2, canonical_scale=64) for size in (7, 14)]
    return MaskRCNN(backbone, rpn_anchor_generator=anchors, box_roi_pool=pools[0], mask_roi_pool=pools[1], box_head=TwoMLPHead(PYRAMID * 49, HIDDEN),
                    box_predictor=FastRCNNPredictor(HIDDEN, CLASSES), mask_head=MaskRCNNHeads(PYRAMID, (PYRAMID,) * 4, 1),
                    mask_predictor=MaskRCNNPredictor(PYRAMID, PYRAMID, CLASSES), min_size=HEIGHT, max_size=WIDTH,
                    image_mean=[0.0] * 3, image_std=[1.0] * 3, rpn_pre_nms_top_n_train=200, rpn_pre_nms_top_n_test=100,
                    rpn_post_nms_top_n_train=PROPOSALS, rpn_post_nms_top_n_test=60, rpn_batch_size_per_image=many,
                    box_batch_size_per_image=many, box_detections_per_img=DETECTIONS).double()


def make_objects(generator):
    """Ellipses in boxes of random places and sizes, more in some images than in others."""
    shape = (STEPS, BATCH, OBJECTS)
    sides = 10 + 30 * torch.rand((*shape, 2), generator=generator, dtype=torch.float64)
    room = torch.tensor([WIDTH, HEIGHT]) - sides
    begin = room * torch.rand((*shape, 2), generator=generator, dtype=torch.float64)
    boxes = torch.cat([begin, begin + sides], -1)
    labels = torch.randint(1, CLASSES, shape, generator=generator)
    labels[0, 1, 1:] = 0
    labels[1, 0, 2] = 0
    boxes[labels == 0] = 0
    x = torch.arange(WIDTH) + 0.5 - (boxes[..., 0] + boxes[..., 2])[..., None, None] / 2
    y = torch.arange(HEIGHT)[:, None] + 0.5 - (boxes[..., 1] + boxes[..., 3])[..., None, None] / 2
    masks = (2 * x / sides[..., 0, None, None])**2 + (2 * y / sides[..., 1, None, None])**2 <= 1
    masks[labels == 0] = False
    return boxes, labels, masks.to(torch.uint8)


def main():
    torch.manual_seed(20240613)
    generator = torch.Generator().manual_seed(20240613)
    model = make_model().train()
    for layer in [model.rpn.head.cls_logits, model.rpn.head.bbox_pred, model.rpn.head.conv[0][0]]:
        nn.init.normal_(layer.weight, std=0.2)
    initial = {name: x.detach().clone() for name, x in model.state_dict().items()}
    images = torch.randint(256, (STEPS, BATCH, 3, HEIGHT, WIDTH), generator=generator, dtype=torch.uint8)
    boxes, labels, masks = make_objects(generator)
    seen = images.double() / 64 - 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses, gradients, counts = [], {}, []
    assign = model.rpn.assign_targets_to_anchors

    def assign_wide(anchors, targets):
        """With labels in f64: their dtype is that of the objectness loss."""
        kinds, matched = assign(anchors, targets)
        return [x.double() for x in kinds], matched

    model.rpn.assign_targets_to_anchors = assign_wide
    model.rpn.register_forward_hook(lambda _, __, result: counts.append([len(x) for x in result[0]]))
    for step in range(STEPS):
        targets = []
        for i in range(BATCH):
            those = labels[step, i] > 0
            targets.append({"boxes": boxes[step, i, those], "labels": labels[step, i, those],
                            "masks": masks[step, i, those]})
        optimizer.zero_grad()
        parts = model(list(seen[step]), targets)
        sum(parts.values()).backward()
        gradients = gradients or {name: x.grad.clone() for name, x in model.named_parameters()}
        optimizer.step()
        losses.append(torch.stack([parts[name].detach() for name in LOSSES]))
    tensors = {"images": images, "boxes": boxes, "labels": labels, "masks": masks, "losses": torch.stack(losses)}
    for name, x in model.state_dict().items():
        tensors[f"trained/{name}"] = x.detach().clone()
    tensors |= {f"gradient/{name}": x for name, x in gradients.items()}
    model.eval()
    model.transform.postprocess = lambda result, *_: result
    with torch.no_grad():
        found = model(list(seen[0]))
    for key, shape in [("boxes", (4,)), ("labels", ()), ("scores", ()), ("masks", (28, 28))]:
        full = torch.zeros((BATCH, DETECTIONS, *shape), dtype=found[0][key].dtype)
        for i, image in enumerate(found):
            full[i, :len(image[key])] = image[key].reshape(-1, *shape)
        tensors[f"found/{key}"] = full
    pasted = torch.zeros((BATCH, DETECTIONS, HEIGHT, WIDTH), dtype=torch.uint8)
    for i, image in enumerate(found):
        pasted[i, :len(image["masks"])] = paste_masks_in_image(image["masks"], image["boxes"], (HEIGHT, WIDTH))[:, 0] > 0.5
    tensors["found/pasted"] = pasted
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests/reference"
    for name, of in [("initial", initial), ("steps", tensors)]:
        save_file({key: x.contiguous() for key, x in of.items()}, folder / f"mask_rcnn_{name}.safetensors")
    print(f"{folder}: losses {torch.stack(losses).tolist()}, proposals {counts}, found {[len(x['boxes']) for x in found]}")


if __name__ == "__main__":
    main()
