import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler.Sharable;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.http.DefaultHttpHeaders;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpClientCodec;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.websocketx.BinaryWebSocketFrame;
import io.netty.handler.codec.http.websocketx.CloseWebSocketFrame;
import io.netty.handler.codec.http.websocketx.ContinuationWebSocketFrame;
import io.netty.handler.codec.http.websocketx.PingWebSocketFrame;
import io.netty.handler.codec.http.websocketx.PongWebSocketFrame;
import io.netty.handler.codec.http.websocketx.TextWebSocketFrame;
import io.netty.handler.codec.http.websocketx.WebSocketClientHandshaker;
import io.netty.handler.codec.http.websocketx.WebSocketClientHandshakerFactory;
import io.netty.handler.codec.http.websocketx.WebSocketFrame;
import io.netty.handler.codec.http.websocketx.WebSocketFrameAggregator;
import io.netty.handler.codec.http.websocketx.WebSocketServerProtocolHandler;
import io.netty.handler.codec.http.websocketx.WebSocketVersion;
import io.netty.handler.codec.http.websocketx.extensions.WebSocketClientExtensionHandler;
import io.netty.handler.codec.http.websocketx.extensions.compression.PerMessageDeflateClientExtensionHandshaker;
import io.netty.handler.codec.http.websocketx.extensions.compression.WebSocketClientCompressionHandler;
import io.netty.handler.codec.http.websocketx.extensions.compression.WebSocketServerCompressionHandler;
import io.netty.util.CharsetUtil;
import java.net.URI;
import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Netty's WebSocket handlers at the other end of a connection.
 *
 * <pre>
 * NettyWebSocketPeer client URL MODE    talks to the echo server of the tests, then ends
 * NettyWebSocketPeer server             echoes; prints "listening on PORT" first, then how each connection has ended
 * </pre>
 *
 * The mode of the client's compression is "default" or "allow-no-context-takeover".
 * The server does for some texts what the echo server of the tests does: fragments, ping, close CODE REASON.
 */
public final class NettyWebSocketPeer {
    private static final long LIMIT_SECONDS = 60;
    private static final int MEBIBYTE = 1 << 20;
    private static final int MAX_FRAME = 4 * MEBIBYTE;

    public static void main(String[] args) throws Exception {
        EventLoopGroup group = new NioEventLoopGroup(1);
        try {
            if (args[0].equals("client")) {
                for (boolean isCompressed : new boolean[] {false, true}) {
                    WebSocketClientExtensionHandler compression = isCompressed ? compression(args[2]) : null;
                    runClient(group, new URI(args[1]), compression);
                }
            } else {
                runServer(group);
            }
        } finally {
            group.shutdownGracefully(0, 0, TimeUnit.SECONDS);
        }
    }

    private static WebSocketClientExtensionHandler compression(String mode) {
        if (mode.equals("default")) {
            return WebSocketClientCompressionHandler.INSTANCE;
        }
        return new AllowingCompressionHandler();
    }

    /** Asks that the server keeps no context, and allows it to ask for the same. */
    @Sharable
    private static final class AllowingCompressionHandler extends WebSocketClientExtensionHandler {
        AllowingCompressionHandler() {
            super(new PerMessageDeflateClientExtensionHandshaker(6, false, 15, true, true));
        }
    }

    private static void runClient(EventLoopGroup group, URI uri, WebSocketClientExtensionHandler compression)
            throws Exception {
        Connection connection = Connection.open(group, uri, compression);
        byte[] all = new byte[256];
        for (int i = 0; i < all.length; i++) {
            all[i] = (byte) i;
        }
        char[] longText = new char[MEBIBYTE / 2];
        Arrays.fill(longText, 'ä');
        connection.echo(new TextWebSocketFrame("Grüße, 漢字 😀"));
        connection.echo(new TextWebSocketFrame(""));
        connection.echo(new BinaryWebSocketFrame(Unpooled.wrappedBuffer(all)));
        connection.echo(new TextWebSocketFrame(new String(longText)));
        connection.echo(new BinaryWebSocketFrame(Unpooled.wrappedBuffer(new byte[MEBIBYTE])));
        connection.send(new TextWebSocketFrame(false, 0, "in "));
        connection.send(new ContinuationWebSocketFrame(false, 0, "three "));
        connection.send(new ContinuationWebSocketFrame(true, 0, "fragments"));
        connection.expect("text in three fragments");
        connection.send(new TextWebSocketFrame("fragments"));
        connection.expect("text one zwöi 三");
        connection.send(new PingWebSocketFrame(Unpooled.copiedBuffer("payload", CharsetUtil.UTF_8)));
        connection.expect("pong payload");
        connection.send(new TextWebSocketFrame("ping"));
        connection.expect("ping are you there");
        connection.send(new CloseWebSocketFrame(4001, "good bye"));
        System.out.println((compression != null) + " " + connection.subprotocol() + " " + connection.next());
        connection.awaitEnd();
        Connection other = Connection.open(group, uri, compression);
        other.send(new TextWebSocketFrame("close 4002 enough"));
        System.out.println(other.next());
        other.awaitEnd();
    }

    private static void runServer(EventLoopGroup group) throws Exception {
        ServerBootstrap bootstrap = new ServerBootstrap().group(group);
        bootstrap.channel(NioServerSocketChannel.class);
        bootstrap.childHandler(new ChannelInitializer<SocketChannel>() {
            @Override
            protected void initChannel(SocketChannel channel) {
                channel.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(8192),
                        new WebSocketServerCompressionHandler(),
                        // With extensions; without mask mismatch; the whole path; pongs are passed on.
                        new WebSocketServerProtocolHandler("/", "v2", true, MAX_FRAME, false, false, false),
                        new WebSocketFrameAggregator(MAX_FRAME), new Echo());
            }
        });
        Channel server = bootstrap.bind("127.0.0.1", 0).sync().channel();
        String address = server.localAddress().toString();
        System.out.println("listening on " + address.substring(address.lastIndexOf(':') + 1));
        server.closeFuture().sync();
    }

    /** Echoes, and does what some texts say. */
    private static final class Echo extends SimpleChannelInboundHandler<WebSocketFrame> {
        @Override
        protected void channelRead0(ChannelHandlerContext context, WebSocketFrame frame) {
            String text = frame instanceof TextWebSocketFrame ? ((TextWebSocketFrame) frame).text() : "";
            if (frame instanceof PongWebSocketFrame) {
                context.writeAndFlush(new TextWebSocketFrame("pong"));
            } else if (text.equals("fragments")) {
                context.write(new TextWebSocketFrame(false, 0, "one "));
                context.write(new ContinuationWebSocketFrame(false, 0, "zwöi "));
                context.writeAndFlush(new ContinuationWebSocketFrame(true, 0, "三"));
            } else if (text.equals("ping")) {
                ByteBuf payload = Unpooled.copiedBuffer("are you there", CharsetUtil.UTF_8);
                context.writeAndFlush(new PingWebSocketFrame(payload));
            } else if (text.startsWith("close ")) {
                String[] words = text.split(" ");
                context.writeAndFlush(new CloseWebSocketFrame(Integer.parseInt(words[1]), words[2]));
            } else {
                context.writeAndFlush(frame.retain());
            }
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            System.out.println("closed");
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            System.out.println("failed: " + cause);
            context.close();
        }
    }

    /** A connection of the client, for the main thread. */
    private static final class Connection extends SimpleChannelInboundHandler<Object> {
        private final BlockingQueue<String> received = new LinkedBlockingQueue<>();
        private final WebSocketClientHandshaker handshaker;
        private Channel channel;

        private Connection(WebSocketClientHandshaker handshaker) {
            this.handshaker = handshaker;
        }

        static Connection open(EventLoopGroup group, URI uri, WebSocketClientExtensionHandler compression)
                throws Exception {
            Connection connection = new Connection(WebSocketClientHandshakerFactory.newHandshaker(uri,
                    WebSocketVersion.V13, "v1,v2", true, new DefaultHttpHeaders(), MAX_FRAME));
            Bootstrap bootstrap = new Bootstrap().group(group).channel(NioSocketChannel.class);
            bootstrap.handler(new ChannelInitializer<SocketChannel>() {
                @Override
                protected void initChannel(SocketChannel channel) {
                    channel.pipeline().addLast(new HttpClientCodec(), new HttpObjectAggregator(8192));
                    if (compression != null) {
                        channel.pipeline().addLast(compression);
                    }
                    channel.pipeline().addLast(new WebSocketFrameAggregator(MAX_FRAME), connection);
                }
            });
            connection.channel = bootstrap.connect(uri.getHost(), uri.getPort()).sync().channel();
            connection.expect("open");
            return connection;
        }

        void send(WebSocketFrame frame) throws Exception {
            channel.writeAndFlush(frame).sync();
        }

        void echo(WebSocketFrame frame) throws Exception {
            String expected = describe(frame);
            send(frame);
            expect(expected);
        }

        String next() throws Exception {
            String line = received.poll(LIMIT_SECONDS, TimeUnit.SECONDS);
            return line == null ? "silence" : line;
        }

        void expect(String expected) throws Exception {
            String line = next();
            if (!line.equals(expected)) {
                int length = Math.min(line.length(), 100);
                throw new AssertionError("not " + expected.length() + " characters: " + line.substring(0, length));
            }
        }

        String subprotocol() {
            return handshaker.actualSubprotocol();
        }

        void awaitEnd() throws Exception {
            expect("end");
        }

        private static String describe(WebSocketFrame frame) {
            if (frame instanceof TextWebSocketFrame) {
                return "text " + ((TextWebSocketFrame) frame).text();
            } else if (frame instanceof CloseWebSocketFrame) {
                CloseWebSocketFrame close = (CloseWebSocketFrame) frame;
                return "close " + close.statusCode() + " " + close.reasonText();
            }
            String kind = frame instanceof PingWebSocketFrame ? "ping "
                    : frame instanceof PongWebSocketFrame ? "pong " : "binary ";
            return kind + frame.content().toString(CharsetUtil.ISO_8859_1);
        }

        @Override
        public void channelActive(ChannelHandlerContext context) {
            handshaker.handshake(context.channel());
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, Object message) {
            if (message instanceof FullHttpResponse) {
                handshaker.finishHandshake(context.channel(), (FullHttpResponse) message);
                received.add("open");
                return;
            }
            WebSocketFrame frame = (WebSocketFrame) message;
            received.add(describe(frame));
            if (frame instanceof PingWebSocketFrame) {
                context.writeAndFlush(new PongWebSocketFrame(frame.content().retain()));
            } else if (frame instanceof CloseWebSocketFrame) {
                // Refused by the server if it is the answer: then it has closed.
                context.writeAndFlush(frame.retain());
            }
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            received.add("end");
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            received.add("failed: " + cause);
            context.close();
        }
    }
}
