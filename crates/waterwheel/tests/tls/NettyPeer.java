import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.ssl.SslCloseCompletionEvent;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslHandler;
import io.netty.handler.ssl.SslHandshakeCompletionEvent;
import io.netty.handler.ssl.SslProvider;
import java.io.File;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLParameters;

/**
 * Netty's SslHandler at the other end of a connection.
 *
 * <pre>
 * NettyPeer client PORT NAME ROOT BYTES VERSION...       one connection per version: sends, compares the echo, closes
 * NettyPeer server CHAIN KEY VERSION CONNECTIONS         echoes; prints "port N" first
 * </pre>
 *
 * Prints a line per connection: version, application protocol, bytes, how TLS was closed.
 */
public final class NettyPeer {
    private static final long LIMIT_SECONDS = 60;

    public static void main(String[] args) throws Exception {
        EventLoopGroup group = new NioEventLoopGroup(1);
        try {
            if (args[0].equals("client")) {
                for (int i = 5; i < args.length; i++) {
                    runClient(group, args, args[i]);
                }
            } else {
                runServer(group, args);
            }
        } finally {
            group.shutdownGracefully(0, 0, TimeUnit.SECONDS);
        }
    }

    /** Sets the application protocol at the JDK's engine: Debian's Netty has no ALPN for it. */
    private static SslHandler withAlpn(SslHandler tls, boolean isClient) {
        SSLParameters parameters = tls.engine().getSSLParameters();
        parameters.setApplicationProtocols(new String[] {"echo"});
        if (isClient) {
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
        }
        tls.engine().setSSLParameters(parameters);
        // Unless it is told to, Netty does not wait for the answer to its close_notify.
        tls.setCloseNotifyReadTimeout(LIMIT_SECONDS, TimeUnit.SECONDS);
        return tls;
    }

    private static void runClient(EventLoopGroup group, String[] args, String version)
            throws Exception {
        SslContext context = SslContextBuilder.forClient().sslProvider(SslProvider.JDK)
                .trustManager(new File(args[3])).protocols(version).build();
        byte[] data = new byte[Integer.parseInt(args[4])];
        new Random(7).nextBytes(data);
        Talk talk = new Talk(data);
        Bootstrap bootstrap = new Bootstrap().group(group).channel(NioSocketChannel.class);
        bootstrap.handler(new ChannelInitializer<SocketChannel>() {
            @Override
            protected void initChannel(SocketChannel channel) {
                int port = Integer.parseInt(args[1]);
                SslHandler tls = context.newHandler(channel.alloc(), args[2], port);
                channel.pipeline().addLast(withAlpn(tls, true), talk);
            }
        });
        bootstrap.connect("127.0.0.1", Integer.parseInt(args[1])).sync();
        System.out.println(talk.done.get(LIMIT_SECONDS, TimeUnit.SECONDS));
    }

    private static void runServer(EventLoopGroup group, String[] args) throws Exception {
        SslContext context = SslContextBuilder.forServer(new File(args[1]), new File(args[2]))
                .sslProvider(SslProvider.JDK).protocols(args[3]).build();
        int connections = Integer.parseInt(args[4]);
        Talk[] talks = new Talk[connections];
        for (int i = 0; i < connections; i++) {
            talks[i] = new Talk(null);
        }
        ServerBootstrap bootstrap = new ServerBootstrap().group(group);
        bootstrap.channel(NioServerSocketChannel.class);
        bootstrap.childHandler(new ChannelInitializer<SocketChannel>() {
            private int next;

            @Override
            protected void initChannel(SocketChannel channel) {
                SslHandler tls = withAlpn(context.newHandler(channel.alloc()), false);
                channel.pipeline().addLast(tls, talks[next++]);
            }
        });
        Channel server = bootstrap.bind("127.0.0.1", 0).sync().channel();
        String address = server.localAddress().toString();
        System.out.println("port " + address.substring(address.lastIndexOf(':') + 1));
        for (Talk talk : talks) {
            System.out.println(talk.done.get(LIMIT_SECONDS, TimeUnit.SECONDS));
        }
    }

    /** Sends data and compares the echo, or echoes if there is none. */
    private static final class Talk extends ChannelInboundHandlerAdapter {
        final CompletableFuture<String> done = new CompletableFuture<>();
        private final byte[] data;
        private String protocol = "no handshake";
        private String closed = "truncated";
        private boolean isEstablished;
        private int received;

        Talk(byte[] data) {
            this.data = data;
        }

        @Override
        public void userEventTriggered(ChannelHandlerContext context, Object event) {
            if (event instanceof SslHandshakeCompletionEvent) {
                if (!((SslHandshakeCompletionEvent) event).isSuccess()) {
                    closed = ((SslHandshakeCompletionEvent) event).cause().toString();
                    return;
                }
                if (isEstablished) {
                    return; // Netty 4.1.48 fires it again for a session ticket of TLS 1.3.
                }
                isEstablished = true;
                SslHandler tls = context.pipeline().get(SslHandler.class);
                protocol = tls.engine().getSession().getProtocol() + " "
                        + tls.engine().getApplicationProtocol();
                if (data != null) {
                    context.writeAndFlush(Unpooled.wrappedBuffer(data));
                }
            } else if (event instanceof SslCloseCompletionEvent) {
                boolean isSuccess = ((SslCloseCompletionEvent) event).isSuccess();
                closed = isSuccess ? "close_notify" : "truncated";
            }
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf bytes = (ByteBuf) message;
            if (data == null) {
                received += bytes.readableBytes();
                context.writeAndFlush(bytes);
                return;
            }
            for (; bytes.isReadable(); received++) {
                if (received == data.length || bytes.readByte() != data[received]) {
                    done.completeExceptionally(new AssertionError(
                            "byte " + received + ", " + bytes.readableBytes() + " more"));
                    break;
                }
            }
            bytes.release();
            if (received == data.length) {
                // Netty sends close_notify, and closes when the peer has answered.
                context.close().addListener(ChannelFutureListener.FIRE_EXCEPTION_ON_FAILURE);
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            closed = cause.toString();
            context.close();
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            done.complete(protocol + " " + received + " " + closed);
        }
    }
}
